// JobTraits are the traits of a job on which its forecast's error depends.
#pragma once

#include <string>
#include <vector>

#include "sim/base/dtype.hpp"
#include "sim/framework/framework.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/timeline/step_shares.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

struct JobTraits {
  std::string job{};     // a model in a format on a device: the same at any scale and layout
  std::string layout{};  // of one replica (replica_text()): the same at any scale
  FrameworkName framework = FrameworkName::megatron;
  // Whether the job says so. Else its kernels and waits are those of a framework that it may not
  // run, and the error is that of frameworks which no preset knows (TimeErrorModel::unnamed).
  bool named = true;
  std::string preset{};  // of the framework, where no measured run stands behind it
  Generation generation = Generation::hopper;
  DType dtype = DType::bf16;  // of matrix products
  Schedule schedule = Schedule::one_f_one_b;
  bool pipelined = false;        // else it has no schedule
  bool experts = false;          // a mixture of experts
  bool tensor = false;           // tensor parallel
  bool context = false;          // context parallel
  bool zero_3 = false;           // parameters sharded over the replicas
  bool lengths = false;          // sequences of unequal length, replicas that wait for each other
  bool expert_adapters = false;  // low-rank adapters of routed experts
  bool mixed_nodes = false;      // of several pools
  bool uneven_replicas = false;  // in their micro-batches
  bool messages_ahead = false;   // messages overlap under 1F1B or GPipe, which no framework does
  // Torchao's scales of rows on narrower products than any measured run has. PyTorch's kernel for
  // them takes 1.0 to 2 times as long as cuBLAS's with scales of tensors, by shape (PyTorch issue
  // 147971), and what of it a shape loses is not published.
  bool narrow_row_scales = false;
  int gpus = 1, nodes = 1;
  StepShares shares;
  bool validated = true;  // device and cluster: measurements stand behind them
  // Settings of the job that change a step and that the forecast leaves out, by their names in the
  // job's file (`notes` of a scenario): no measured run has them, so the deviation of jobs unlike
  // those (TimeErrorModel::unlike) counts.
  std::vector<std::string> unmodelled{};
};

// "llama-3-8b, NVIDIA H100, bf16": JobTraits::job.
std::string job_name(const Model& model, const Layout& layout, const Cluster& cluster);

JobTraits traits_of(const Model& model, FrameworkName framework, const Layout& layout,
                    const Cluster& cluster, const StepShares& shares);

}  // namespace sim
