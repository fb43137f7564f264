// Formats of files that start a training, for programs that the words of the file do not tell.
#include "sim/config/foreign/foreign_format.hpp"

namespace sim {

std::span<const ForeignFormat> foreign_launches() {
  static const std::vector<ForeignFormat> rows{
      {.name = "a serving job, not a training",
       .instead = "Inference is not forecast.",
       .all = {},
       .some = {"~vllm serve", "~sglang.launch_server", "~trtllm-serve", "~vllm.entrypoints"},
       .least = 1,
       .use = ForeignUse::any_job},
      {.name = "a training script in Python (Hugging Face's trainers)",
       .instead = "Give its arguments as a YAML file to `stepcast import trl`, or the launcher's "
                  "config to `stepcast import accelerate`.",
       .all = {"~import ", "~__main__"},
       .some = {"TrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "SFTTrainer"},
       .least = 1,
       .use = ForeignUse::any_job},
      {.name = "a training script in Python",
       .instead = "Stepcast runs no Python. Write a scenario (scenarios/README.md has an example).",
       .all = {"~import ", "~__main__"},
       .some = {"torch.distributed.", "fully_shard", "FullyShardedDataParallel",
                "DistributedDataParallel", "init_process_group", "deepspeed.initialize"},
       .least = 1,
       .use = ForeignUse::any_job},
      {.name = "a Kubernetes manifest of a job",
       .instead = "Give the arguments of the program that it starts to the import of its "
                  "framework, or write a scenario.",
       .all = {"apiVersion:", "kind:"},
       .some = {"PyTorchJob", "MPIJob", "JobSet", "RayJob", "RayCluster", "TrainJob",
                "LeaderWorkerSet", "~nvidia.com/gpu", "~amd.com/gpu"},
       .least = 1,
       .use = ForeignUse::any_job},
      {.name = "a SkyPilot task",
       .instead = "Give the arguments of the program that it starts to the import of its "
                  "framework, or write a scenario.",
       .all = {"resources:", "accelerators:", "run:"},
       .use = ForeignUse::any_job,
       .keys = {{"num_nodes", "cluster.nodes"}}},
      {.name = "a launch script of a program that is not known",
       .instead = "Give the arguments of that program to the import of its framework, or write a "
                  "scenario:",
       .all = {},
       .some = {"torchrun", "torch.distributed.run", "torch.distributed.launch", "~#SBATCH",
                "~accelerate launch", "~deepspeed --", "mpirun", "srun"},
       .least = 1,
       .use = ForeignUse::any_job,
       .keys = {{"nodes", "cluster.nodes"},
                {"nnodes", "cluster.nodes"},
                {"nproc_per_node", "cluster.gpus_per_node"},
                {"gpus_per_node", "cluster.gpus_per_node"}}},
  };
  return rows;
}

}  // namespace sim
