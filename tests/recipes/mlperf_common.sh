# What the runs of a benchmark share.
export USE_DIST_OPTIMIZER=True
export MICRO_BATCH_SIZE=1
: "${LOAD_MINIMAL_NUM_SAMPLES:=0}"
if [[ "${LOAD_MINIMAL_NUM_SAMPLES}" -eq 1 ]]; then
  export MAX_STEPS=500
fi
export FP8=True
export FP8_PARAM_GATHER=True
export OVERLAP_GRAD_REDUCE=True
export OVERLAP_PARAM_GATHER=True
export TP_PP_DP_MAPPING=True
export CUDA_DEVICE_MAX_CONNECTIONS=1
