source $(dirname ${BASH_SOURCE[0]})/mlperf_common.sh

export MODEL_SIZE="8b"
export FP8_RECIPE="tensorwise"
export MINIBS=1
export TENSOR_MODEL_PARALLEL=1
export SEQ_PARALLEL=False
export PIPELINE_MODEL_PARALLEL=1
export INTERLEAVED_PIPELINE=null
export CONTEXT_PARALLEL=2
export BUCKET_SIZE=768000000
export CE_FUSION_IMPL=te
export FULL_CUDA_GRAPH=1
export MCORE_CUDA_GRAPH=1
export LR=0.0008
export DGXNNODES=18
export DGXNGPU=4
