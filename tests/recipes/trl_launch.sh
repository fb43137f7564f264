#!/bin/bash
# A long context on one node: the flags of the trainer beside Accelerate's file.
LENGTH=$((64 * 1024))
accelerate launch --config_file accelerate_cp.yaml --num_processes 8 train.py \
  --model_name_or_path Qwen/Qwen3-8B --max_length "$LENGTH" --per_device_train_batch_size 1 \
  --gradient_accumulation_steps 2 --gradient_checkpointing False --bf16 \
  --loss_type chunked_nll --output_dir out
