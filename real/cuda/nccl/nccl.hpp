// The operations of the NCCL communicators that a program uses.
#pragma once

#include <nccl.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "real/cuda/nccl/communicators.hpp"
#include "real/cuda/nccl/nccl_pool.hpp"
#include "real/net/collectives.hpp"
#include "real/net/transport.hpp"

namespace real {

class NcclWorld {
 public:
  // Collective over the plan's ranks, as NcclPool::take() is. Communicators come from `pool`, which
  // may be shared with other runs of the rank.
  NcclWorld(std::vector<Communicator> communicators, Transport& control,
            std::chrono::milliseconds timeout,
            std::shared_ptr<NcclPool> pool = std::make_shared<NcclPool>());

  // Index of a communicator, or npos.
  static constexpr std::size_t npos = SIZE_MAX;
  std::size_t find(CommunicatorKind kind, sim::GroupRole role, sim::Stream stream) const;
  // From `from` to `to`, world ranks, on a stream of this rank.
  std::size_t find_message(int from, int to, sim::Stream stream) const;
  const Communicator& at(std::size_t index) const { return communicators_[index]; }

  // Asynchronous on `stream`; `count` elements of the full buffer (of a reduce-scatter its input,
  // of an all-gather its result). Input and output may be one.
  struct Call {
    const void* input = nullptr;
    void* output = nullptr;
    std::int64_t count = 0;
    sim::DType dtype = sim::DType::fp32;
    Reduction reduction = Reduction::sum;
  };
  void all_reduce(std::size_t index, const Call& call, cudaStream_t stream);
  void reduce_scatter(std::size_t index, const Call& call, cudaStream_t stream);
  void all_gather(std::size_t index, const Call& call, cudaStream_t stream);
  // Member i gets part i of every member's input, in the order of the members.
  void all_to_all(std::size_t index, const Call& call, cudaStream_t stream);
  // Every member sends the inputs to the next one (backward: to the one before), and gets the
  // outputs from the other side, all in one message. No input overlaps an output.
  void ring_shift(std::size_t index, std::span<const Call> pieces, bool backward,
                  cudaStream_t stream);
  void send(std::size_t index, const Call& call, cudaStream_t stream);
  void receive(std::size_t index, const Call& call, cudaStream_t stream);
  // Reduce-scatter in the node, all-reduce along the rail, all-gather in the node; elements that
  // the node's ranks cannot share evenly are all-reduced by both, one after the other.
  void hierarchical_all_reduce(std::size_t node, std::size_t rail, const Call& call,
                               cudaStream_t stream);

  // As of NcclPool, for all of its communicators.
  std::string asynchronous_error() const { return pool_->asynchronous_error(); }
  void abort() { pool_->abort(); }

 private:
  NcclPool::Use use(std::size_t index) const { return {*pool_, places_[index]}; }
  void check_call(ncclResult_t result, std::size_t index, const char* what) const;

  std::vector<Communicator> communicators_;
  std::shared_ptr<NcclPool> pool_;
  std::vector<std::size_t> places_;  // of each in the pool
};

}  // namespace real
