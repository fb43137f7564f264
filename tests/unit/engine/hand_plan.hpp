// Plans written by hand: a few operators per rank, for tests that must know every edge.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/engine/simulate.hpp"
#include "tests/support/source_dir.hpp"

namespace sim {

class HandProgram {
 public:
  HandProgram() {
    program.first_dependency.push_back(0);
    program.first_buffer_use.push_back(0);
  }

  OpId gemm(std::int64_t size, std::initializer_list<OpId> after = {}) {
    const auto n = static_cast<double>(size);
    program.kernels.push_back({.kind = OpKind::gemm,
                               .dtype = dtype,
                               .m = size,
                               .n = size,
                               .k = size,
                               .flops = Flops{2 * n * n * n},
                               .bytes = Bytes{6 * size * size}});
    return add(OpKind::gemm, Stream::compute, program.kernels.size() - 1, after);
  }
  OpId stream_bytes(Bytes bytes, std::initializer_list<OpId> after = {}) {
    program.kernels.push_back({.kind = OpKind::elementwise, .bytes = bytes});
    return add(OpKind::elementwise, Stream::compute, program.kernels.size() - 1, after);
  }
  // As the casts of a gradient bucket: beside the compute stream.
  OpId kernel_on(Stream stream, Bytes bytes, std::initializer_list<OpId> after = {}) {
    program.kernels.push_back({.kind = OpKind::elementwise, .bytes = bytes});
    return add(OpKind::elementwise, stream, program.kernels.size() - 1, after);
  }
  OpId collective(CollectiveKind kind, Bytes bytes, GroupRole role,
                  std::initializer_list<OpId> after = {}) {
    program.collectives.push_back({.kind = kind, .group = role, .bytes = bytes});
    return add(OpKind::collective,
               role == GroupRole::tensor ? Stream::tensor_comm : Stream::data_comm,
               program.collectives.size() - 1, after);
  }
  OpId message(Stream stream, Bytes bytes, std::initializer_list<OpId> after = {}) {
    const bool send = stream == Stream::forward_send || stream == Stream::backward_send;
    const bool next = stream == Stream::forward_send || stream == Stream::backward_recv;
    program.transfers.push_back(
        {.peer = next ? Peer::next_stage : Peer::previous_stage, .bytes = bytes});
    return add(send ? OpKind::send : OpKind::recv, stream, program.transfers.size() - 1, after);
  }

  Program program;
  DType dtype = DType::bf16;  // of products
  // action and subject are those of the operators added from now on.
  Action action = Action::forward;
  std::uint32_t subject = Program::no_subject;

 private:
  OpId add(OpKind kind, Stream stream, std::size_t work, std::initializer_list<OpId> after) {
    const OpId op{static_cast<std::uint32_t>(program.kind.size())};
    program.kind.push_back(kind);
    program.stream.push_back(stream);
    program.pass.push_back(Pass::forward);
    program.work.push_back(static_cast<std::uint32_t>(work));
    program.action.push_back(action);
    program.subject.push_back(subject);
    program.label.push_back({.name = op.value});
    program.names.push_back("op" + std::to_string(op.value));
    program.dependency.insert(program.dependency.end(), after);
    program.first_dependency.push_back(static_cast<std::uint32_t>(program.dependency.size()));
    program.first_buffer_use.push_back(0);
    return op;
  }
};

inline std::vector<GpuId> first_gpus(int count, int stride = 1) {
  std::vector<GpuId> gpus;
  gpus.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    gpus.push_back({static_cast<std::uint32_t>(i * stride)});
  return gpus;
}

inline Cluster load_cluster(const std::string& name, int nodes) {
  return Cluster::load(sim::test::source_dir() + "/topologies/" + name + ".yaml", nodes);
}

inline SimulationOptions no_host() {
  return {.graphs = true};
}

// `programs[i]` runs on every rank of pipeline stage i; tensor and data groups as the layout says.
inline Plan hand_plan(std::vector<Program> programs, int tensor, int data) {
  Plan plan;
  Layout& layout = plan.layout;
  layout.tensor_parallel = tensor;
  layout.data_parallel = data;
  layout.pipeline_parallel = static_cast<int>(programs.size());
  plan.programs = std::move(programs);
  const int stages = layout.pipeline_parallel;
  const int world = layout.world_size();
  const auto rank_at = [&](int t, int d, int p) {
    return RankId{static_cast<std::uint32_t>(t + tensor * (d + data * p))};
  };
  plan.program_of_rank.resize(static_cast<std::size_t>(world));
  plan.group_of.resize(static_cast<std::size_t>(world));
  plan.peer_of.resize(static_cast<std::size_t>(world));
  for (auto& groups : plan.group_of)
    groups.fill(Plan::no_group);
  const auto add_group = [&](GroupRole role, std::vector<RankId> ranks) {
    for (const RankId rank : ranks)
      plan.group_of[rank.value][static_cast<std::size_t>(role)] =
          static_cast<std::uint32_t>(plan.groups.size());
    plan.groups.push_back({role, std::move(ranks)});
  };
  for (int p = 0; p < stages; ++p) {
    for (int d = 0; d < data; ++d) {
      std::vector<RankId> ranks;
      ranks.reserve(static_cast<std::size_t>(tensor));
      for (int t = 0; t < tensor; ++t)
        ranks.push_back(rank_at(t, d, p));
      for (const RankId rank : ranks) {
        plan.program_of_rank[rank.value] = static_cast<std::uint32_t>(p);
        const auto offset = static_cast<int>(rank.value) - static_cast<int>(rank_at(0, d, p).value);
        plan.peer_of[rank.value] = {rank_at(offset, d, (p + 1) % stages),
                                    rank_at(offset, d, (p + stages - 1) % stages)};
      }
      if (tensor > 1) add_group(GroupRole::tensor, ranks);
    }
    for (int t = 0; t < tensor && data > 1; ++t) {
      std::vector<RankId> ranks;
      ranks.reserve(static_cast<std::size_t>(data));
      for (int d = 0; d < data; ++d)
        ranks.push_back(rank_at(t, d, p));
      add_group(GroupRole::data, ranks);
    }
  }
  return plan;
}

}  // namespace sim
