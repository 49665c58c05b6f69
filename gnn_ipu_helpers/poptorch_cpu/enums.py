"""PopTorch's enumerations: a table, because on a CPU most of them only have to be there."""

import enum

# name: (what it chooses, its members in the order of their numbers)
_BY_NUMBER = {
    "DataLoaderMode": (
        "Where batches are made: in this process, or ahead of time in another.",
        ("Sync", "Async", "AsyncRebatched"),
    ),
    "SharingStrategy": (
        "How another process gets the dataset.",
        ("SharedMemory", "FileSystem", "Fork", "ForkServer"),
    ),
    "OutputMode": (
        "Which mini-batches' outputs a call returns; Default is All for inference and Final for training.",
        ("Final", "EveryN", "All", "Sum", "Default"),
    ),
    "ConnectionType": ("When to attach to an IPU.", ("Always", "OnDemand", "Never")),
    "HalfFloatCastingBehavior": (
        "How mixed half and float operands are cast.",
        ("FloatDowncastToHalf", "HalfUpcastToFloat", "Default"),
    ),
    "ReductionType": (
        "How the gradients of accumulated and replicated mini-batches are brought together.",
        ("Sum", "Mean", "NoReduction"),
    ),
    "MeanReductionStrategy": (
        "When a mean over accumulated gradients is taken.",
        ("Running", "Post", "PostAndLoss"),
    ),
    "SyncPattern": ("How IPUs wait for one another.", ("Full", "SinglePipeline", "ReplicaAndLadder")),
    "Liveness": (
        "Where tensors stay between the phases of phased execution.",
        ("AlwaysLive", "OffChipAfterFwd", "OffChipAfterFwdNoOverlap", "OffChipAfterEachPhase"),
    ),
    "AutoStage": ("How blocks are given stages when none are named.", ("SameAsIpu", "AutoIncrement")),
    "MultiConvPlanType": (
        "Whether the convolutions of a MultiConv run side by side or one after the other.",
        ("Parallel", "Serial"),
    ),
    "CommGroupType": ("How replicas are grouped.", ("All", "Consecutive", "Orthogonal", "NoGrouping")),
    "VariableRetrievalMode": (
        "Which replicas' copies of a variable are read back.",
        ("OnePerGroup", "AllReplicas"),
    ),
}
_BY_TEXT = {
    "MatMulSerializationMode": (
        "The dimension along which a matrix multiplication is cut.",
        {
            "InputChannels": "input_channels",
            "ReducingDim": "reducing_dim",
            "OutputChannels": "output_channels",
            "Disabled": "none",
        },
    ),
    "OverlapMode": (
        "Which transfers between host and IPU overlap with computation.",
        {
            "NoOverlap": "no_overlap",
            "OverlapAccumulationLoop": "overlap_accumulation_loop",
            "OverlapDeviceIterationLoop": "overlap_device_iteration_loop",
        },
    ),
}

__all__ = [*_BY_NUMBER, *_BY_TEXT]

for _name, (_doc, _members) in _BY_NUMBER.items():
    globals()[_name] = enum.IntEnum(_name, [(m, n) for n, m in enumerate(_members)], module=__name__)
    globals()[_name].__doc__ = _doc
for _name, (_doc, _members) in _BY_TEXT.items():
    globals()[_name] = enum.Enum(_name, _members, module=__name__)
    globals()[_name].__doc__ = _doc
