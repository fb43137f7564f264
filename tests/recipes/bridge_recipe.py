def llama3_70b_pretrain_64gpu_gb200_bf16_config():
    cfg = _pretrain_common()
    cfg.mixed_precision = _perf_precision("bf16")
    cfg.model.seq_length = 8192
    cfg.dataset.sequence_length = 8192
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.sequence_parallel = True
    _benchmark_common(cfg)
    return cfg
