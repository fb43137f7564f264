#!/bin/bash
source $(dirname $0)/megatron_sizes.sh
GPUS_PER_NODE=8
NUM_NODES=${SLURM_NNODES:-4}

MODEL_ARGS=(
  --use-mcore-models
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --kv-channels 128
  --seq-length $SEQ_LENGTH --max-position-embeddings $SEQ_LENGTH
  --position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear
  --untie-embeddings-and-output-weights --vocab-size 128256
  --attention-dropout 0.0 --hidden-dropout 0.0
)
TRAINING_ARGS=(
  --micro-batch-size 1 --global-batch-size 128 --train-samples 1000000
  --lr 0.00015 --bf16 --cross-entropy-loss-fusion
)
PARALLEL_ARGS=(
  --tensor-model-parallel-size $TP_SIZE --pipeline-model-parallel-size 1 --context-parallel-size 2
  --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES pretrain_gpt.py \
  ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} ${PARALLEL_ARGS[@]}
