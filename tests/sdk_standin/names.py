"""The public names of PopTorch 3.3 and their parameters: what a machine with the Poplar SDK has, and nothing more."""

# ruff: noqa: E501

FUNCTIONS = {
    "load": "(filename, edit_opts_fn=None)",
    "trainingModel": "(model, options=None, optimizer=None)",
    "inferenceModel": "(model, options=None)",
    "ipuHardwareIsAvailable": "(num_ipus=1)",
    "ipuHardwareVersion": "()",
    "setLogLevel": "(level)",
    "registerCustomArgParser": "(arg_data_type, arg_parser)",
    "registerGeometricCustomArgParsers": "()",
    "registerPreCompileHook": "(hook)",
    "registerPostCompileHook": "(hook)",
    "ctc_beam_search_decoder": "(probs, lengths, blank=0, beam_width=100, top_paths=1)",
    "ipu_print_tensor": "(tensor, title='', print_gradient=True, summarise_threshold=1000, edge_items=3, max_line_width=80, digits=4, float_format='auto', separator=', ', open_bracket='(', close_bracket=')')",
    "for_loop": "(count, body, inputs)",
    "cond": "(condition, then_body, then_inps, else_body, else_inps)",
    "nop": "(tensor)",
    "dynamic_slice": "(tensor, dim, start, size, step)",
    "dynamic_update": "(input, src, dim, start, size)",
    "recomputationCheckpoint": "(*tensors)",
    "serializedMatMul": "(lhs, rhs, mode, factor=0, keep_precision=False)",
    "set_available_memory": "(tensor, available_memory_proportion)",
    "set_overlap_for_input": "(input_tensors, mode)",
    "set_overlap_for_output": "(output_tensors, mode)",
    "removeBlocks": "(module)",
    "BeginBlock": "(layer_to_call, user_id=None, ipu_id=None)",
    "BlockFunction": "(user_id=None, ipu_id=None)",
    "custom_op": "(inputs, name, domain, domain_version, example_outputs, attributes=None)",
    "identity_loss": "(x, reduction)",
    "fps": "(src, ptr, ratio=0.5, random_start=False)",
    "nearest": "(x, y, batch_x=None, batch_y=None)",
}

# Class: (parameters, {method: parameters, or "property"})
CLASSES = {
    "DataLoader": (
        "(options, dataset, batch_size=1, shuffle=None, num_workers=0, drop_last=True, persistent_workers=None, auto_distributed_partitioning=True, mode=DataLoaderMode.Sync, async_options=None, rebatched_worker_size=None, batch_sampler=None, **kwargs)",
        {
            "combinedBatchSize": "property",
            "options": "property",
            "terminate": "()",
        },
    ),
    "AsynchronousDataAccessor": (
        "(dataset, buffer_size=3, miss_sleep_time_in_ms=0.1, load_indefinitely=True, early_preload=False, sharing_strategy=SharingStrategy.ForkServer, rebatched_size=None)",
        {
            "terminate": "()",
        },
    ),
    "ICustomArgParser": (
        "",
        {
            "yieldTensors": "(struct)",
            "reconstruct": "(original_structure, tensor_iterator)",
        },
    ),
    "ConfigFileError": ("", {}),
    "_JitOptions": (
        "",
        {
            "traceModel": "(trace_model)",
        },
    ),
    "_PrecisionOptions": (
        "(popart_options)",
        {
            "halfFloatCasting": "(half_float_casting)",
            "runningStatisticsAlwaysFloat": "(value)",
            "enableFloatingPointExceptions": "(enabled)",
            "enableStochasticRounding": "(enabled)",
            "setPartialsType": "(dtype)",
        },
    ),
    "_TrainingOptions": (
        "(popart_options)",
        {
            "gradientAccumulation": "(gradient_accumulation)",
            "accumulationAndReplicationReductionType": "(reduction_type)",
            "setMeanAccumulationAndReplicationReductionStrategy": "(mean_reduction_strategy)",
            "setAutomaticLossScaling": "(enabled)",
            "setConvolutionDithering": "(enabled)",
        },
    ),
    "_PopartOptions": (
        "()",
        {
            "checkIsFrozen": "(option=None)",
            "set": "(key, value)",
            "setEngineOptions": "(engine_options)",
            "setPatterns": "(patterns, level=2)",
        },
    ),
    "_DistributedOptions": (
        "()",
        {
            "disable": "()",
            "setEnvVarNames": "(var_num_processes, var_process_id)",
            "configureProcessId": "(process_id, num_processes)",
            "processId": "property",
            "numProcesses": "property",
        },
    ),
    "TensorLocationSettings": (
        "",
        {
            "minElementsForOffChip": "(min_elements)",
            "minElementsForReplicatedTensorSharding": "(min_elements)",
            "useOnChipStorage": "(use=True)",
            "useReplicatedTensorSharding": "(use=True)",
            "useIOTilesToLoad": "(use=True)",
            "useIOTilesToStore": "(use=True)",
        },
    ),
    "_TensorLocationOptions": (
        "",
        {
            "numIOTiles": "(num_tiles)",
            "setActivationLocation": "(location)",
            "setWeightLocation": "(location)",
            "setOptimizerLocation": "(location)",
            "setAccumulatorLocation": "(location)",
        },
    ),
    "Stage": (
        "(*block_ids)",
        {
            "blocks": "property",
            "ipu": "(ipu)",
        },
    ),
    "Phase": (
        "(*arg)",
        {
            "stage": "(idx)",
            "ipus": "(*ipus)",
        },
    ),
    "PipelinedExecution": (
        "(*args)",
        {
            "backendOptions": "()",
        },
    ),
    "ShardedExecution": (
        "",
        {
            "backendOptions": "()",
        },
    ),
    "ParallelPhasedExecution": (
        "",
        {
            "backendOptions": "()",
            "sendTensorsOffChipAfterFwd": "(off_chip=True)",
        },
    ),
    "SerialPhasedExecution": (
        "",
        {
            "setTensorsLiveness": "(liveness)",
            "backendOptions": "()",
        },
    ),
    "Options": (
        "()",
        {
            "from_json": "(string)",
            "sourceLocationExcludes": "(excludes)",
            "appendToLocationExcludes": "(*excludes)",
            "showCompilationProgressBar": "(show=True)",
            "loadFromFile": "(filepath)",
            "relaxOptimizerAttributesChecks": "(relax=True)",
            "TensorLocations": "property",
            "Distributed": "property",
            "Jit": "property",
            "Precision": "property",
            "Training": "property",
            "autoRoundNumIPUs": "(auto_round_num_ipus=True)",
            "deviceIterations": "(device_iterations)",
            "setExecutionStrategy": "(strategy)",
            "setAvailableMemoryProportion": "(available_memory_proportion)",
            "replicationFactor": "(replication_factor)",
            "inputReplicaGrouping": "(input_group_size, input_group_type)",
            "broadcastBuffers": "(broadcast_buffers=True)",
            "logDir": "(log_dir)",
            "maxRepeatLogs": "(max_lines)",
            "modelName": "(name)",
            "enableExecutableCaching": "(path)",
            "useIpuModel": "(use_model)",
            "connectionType": "(connection_type)",
            "syncPattern": "(sync_pattern)",
            "useIpuId": "(ipu_id)",
            "useOfflineIpuTarget": "(ipu_version=2)",
            "anchorTensor": "(short_name, long_name, output_mode=None, output_return_period=1)",
            "outputMode": "(output_mode, output_return_period=None)",
            "defaultOutputMode": "()",
            "randomSeed": "(random_seed)",
            "enableStableNorm": "(enabled)",
            "enableSyntheticData": "(enabled)",
            "logCycleCount": "(log_cycle_count)",
            "enableProfiling": "(profile_dir=None)",
            "disableModuleNamescope": "()",
            "updatableNamedBuffers": "(buffers)",
            "toDict": "()",
            "clone": "()",
        },
    ),
    "PoplarExecutor": (
        "(model, options, training, poptorch_version, optimizer=None, user_model=None)",
        {
            "load_state_dict": "(state_dict, strict=True)",
            "model": "property",
            "options": "property",
            "getTensorNames": "()",
            "getAnchoredTensor": "(short_name)",
            "copyWeightsToHostIfNeeded": "()",
            "copyWeightsToHost": "()",
            "copyWeightsToDevice": "()",
            "copyNamedBuffersToDevice": "()",
            "setOptimizer": "(optimizer)",
            "compile": "(*args, **kwargs)",
            "loadExecutable": "(filename)",
            "save": "(filename, export_model=True, save_rng_state=True)",
            "rng_state": "property",
            "compileAndExport": "(filename, *args, export_model=True, **kwargs)",
            "cycleCount": "()",
            "compilationTime": "()",
            "getPerfCounters": "()",
            "getHostIpuLatency": "()",
            "getComputeLatency": "()",
            "getIpuHostLatency": "()",
            "getLatency": "()",
            "destroy": "()",
            "isAttachedToDevice": "()",
            "isCompiled": "()",
            "detachFromDevice": "()",
            "attachToDevice": "()",
        },
    ),
    "Block": (
        "(user_id=None, ipu_id=None)",
        {
            "useAutoId": "()",
            "start": "(user_id=None, ipu_id=None)",
        },
    ),
    "LegacyBeginBlockFn": ("(layer_to_call, user_id=None, ipu_id=None)", {}),
    "CPU": (
        "(layer_to_call, ID)",
        {
            "execute": "()",
            "registerPersistentData": "()",
        },
    ),
    "MultiConv": (
        "()",
        {
            "availableMemoryProportions": "(value)",
            "partialsTypes": "(value)",
            "enableConvDithering": "(value)",
            "planType": "(value)",
            "perConvReservedTiles": "(value)",
            "cycleBackOff": "(value)",
        },
    ),
    "NameScope": ("(name)", {}),
}

OPTIMISERS = {
    "Optimizer": (
        "()",
        {
            "state_dict": "()",
            "load_state_dict": "(state)",
            "get_state_dict": "()",
            "set_state_dict": "(state)",
            "has_state": "()",
        },
    ),
    "SGD": (
        "(params, lr, momentum=None, dampening=None, weight_decay=None, nesterov=None, maximize=None, foreach=None, differentiable=None, loss_scaling=None, velocity_scaling=None, use_combined_accum=None, accum_type=None, velocity_accum_type=None, max_grad_norm=None)",
        {},
    ),
    "Adam": (
        "(params, lr=None, betas=None, eps=None, weight_decay=None, amsgrad=None, foreach=None, maximize=None, capturable=None, differentiable=None, fused=None, loss_scaling=None, accum_type=None, first_order_momentum_accum_type=None, second_order_momentum_accum_type=None, max_grad_norm=None)",
        {},
    ),
    "AdamW": (
        "(params, lr=None, betas=None, eps=None, weight_decay=None, amsgrad=None, maximize=None, foreach=None, capturable=None, differentiable=None, fused=None, loss_scaling=None, bias_correction=None, accum_type=None, first_order_momentum_accum_type=None, second_order_momentum_accum_type=None, max_grad_norm=None)",
        {},
    ),
    "RMSprop": (
        "(params, lr=None, alpha=None, eps=None, weight_decay=None, momentum=None, centered=None, foreach=None, maximize=None, differentiable=None, loss_scaling=None, accum_type=None, first_order_momentum_accum_type=None, second_order_momentum_accum_type=None, use_tf_variant=None)",
        {},
    ),
    "LAMB": (
        "(params, lr=None, betas=None, eps=None, weight_decay=None, bias_correction=None, loss_scaling=None, max_weight_norm=None, accum_type=None, first_order_momentum_accum_type=None, second_order_momentum_accum_type=None)",
        {
            "step": "(closure=None)",
        },
    ),
}

# Names of the module that are neither functions nor classes of the tables above.
MODULE = [
    "Error",
    "RecoverableError",
    "UnrecoverableError",
    "enums",
    "isRunningOnIpu",
    "ops",
    "optim",
    "options",
    "poptorch_core",
    "profiling",
]

ENUMERATIONS = {
    "MeanReductionStrategy": ["Running", "Post", "PostAndLoss"],
    "DataLoaderMode": ["Sync", "Async", "AsyncRebatched"],
    "SharingStrategy": ["SharedMemory", "FileSystem", "Fork", "ForkServer"],
    "OutputMode": ["Final", "EveryN", "All", "Sum", "Default"],
    "ConnectionType": ["Always", "OnDemand", "Never"],
    "HalfFloatCastingBehavior": ["FloatDowncastToHalf", "HalfUpcastToFloat", "Default"],
    "ReductionType": ["Sum", "Mean", "NoReduction"],
    "SyncPattern": ["Full", "SinglePipeline", "ReplicaAndLadder"],
    "MatMulSerializationMode": ["InputChannels", "ReducingDim", "OutputChannels", "Disabled"],
    "Liveness": ["AlwaysLive", "OffChipAfterFwd", "OffChipAfterFwdNoOverlap", "OffChipAfterEachPhase"],
    "OverlapMode": ["NoOverlap", "OverlapAccumulationLoop", "OverlapDeviceIterationLoop"],
    "AutoStage": ["SameAsIpu", "AutoIncrement"],
    "MultiConvPlanType": ["Parallel", "Serial"],
    "CommGroupType": ["All", "Consecutive", "Orthogonal", "NoGrouping"],
    "VariableRetrievalMode": ["OnePerGroup", "AllReplicas"],
}
