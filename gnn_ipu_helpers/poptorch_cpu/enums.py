"""PopTorch's enumerations. On a CPU most of them only have to be there."""

from enum import Enum, EnumMeta, IntEnum

DataLoaderMode = IntEnum("DataLoaderMode", "Sync Async AsyncRebatched", start=0)
DataLoaderMode.__doc__ = "Where batches are made: in this process, or ahead of time in another."
SharingStrategy = IntEnum("SharingStrategy", "SharedMemory FileSystem Fork ForkServer", start=0)
SharingStrategy.__doc__ = "How another process gets the dataset."
OutputMode = IntEnum("OutputMode", "Final EveryN All Sum Default", start=0)
OutputMode.__doc__ = (
    "Which mini-batches' outputs a call returns; Default: All for inference, Final for training."
)
ConnectionType = IntEnum("ConnectionType", "Always OnDemand Never", start=0)
ConnectionType.__doc__ = "When to attach to an IPU."
HalfFloatCastingBehavior = IntEnum(
    "HalfFloatCastingBehavior", "FloatDowncastToHalf HalfUpcastToFloat Default", start=0
)
HalfFloatCastingBehavior.__doc__ = "How mixed half and float operands are cast."
ReductionType = IntEnum("ReductionType", "Sum Mean NoReduction", start=0)
ReductionType.__doc__ = "How the gradients of accumulated and replicated mini-batches are brought together."
MeanReductionStrategy = IntEnum("MeanReductionStrategy", "Running Post PostAndLoss", start=0)
MeanReductionStrategy.__doc__ = "When a mean over accumulated gradients is taken."
SyncPattern = IntEnum("SyncPattern", "Full SinglePipeline ReplicaAndLadder", start=0)
SyncPattern.__doc__ = "How IPUs wait for one another."
Liveness = IntEnum(
    "Liveness", "AlwaysLive OffChipAfterFwd OffChipAfterFwdNoOverlap OffChipAfterEachPhase", start=0
)
Liveness.__doc__ = "Where tensors stay between the phases of phased execution."
AutoStage = IntEnum("AutoStage", "SameAsIpu AutoIncrement", start=0)
AutoStage.__doc__ = "How blocks are given stages when none are named."
MultiConvPlanType = IntEnum("MultiConvPlanType", "Parallel Serial", start=0)
MultiConvPlanType.__doc__ = "Whether the convolutions of a MultiConv run side by side or one after the other."
CommGroupType = IntEnum("CommGroupType", "All Consecutive Orthogonal NoGrouping", start=0)
CommGroupType.__doc__ = "How replicas are grouped."
VariableRetrievalMode = IntEnum("VariableRetrievalMode", "OnePerGroup AllReplicas", start=0)
VariableRetrievalMode.__doc__ = "Which replicas' copies of a variable are read back."


class MatMulSerializationMode(Enum):
    """The dimension along which a matrix multiplication is cut."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class OverlapMode(Enum):
    """Which transfers between host and IPU overlap with computation."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


__all__ = [n for n, it in list(globals().items()) if isinstance(it, EnumMeta) and it.__module__ == __name__]
