// The NCCL communicators of a rank: made, used, watched, aborted.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "real/cuda/communicators.hpp"
#include "real/net/collectives.hpp"
#include "real/net/transport.hpp"

namespace real {

class NcclWorld {
 public:
  // Collective over the plan's ranks: ids travel over `control`. The setting NCCL_ALGO of the
  // process is changed while a communicator with an algorithm of its own is made.
  NcclWorld(std::vector<Communicator> communicators, Transport& control,
            std::chrono::milliseconds timeout);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  // Index of a communicator, or npos.
  static constexpr std::size_t npos = SIZE_MAX;
  std::size_t find(CommunicatorKind kind, sim::GroupRole role, sim::Stream stream) const;
  // From `from` to `to`, world ranks, on a stream of this rank.
  std::size_t find_message(int from, int to, sim::Stream stream) const;
  const Communicator& at(std::size_t index) const { return members_[index].communicator; }

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
  void send(std::size_t index, const Call& call, cudaStream_t stream);
  void receive(std::size_t index, const Call& call, cudaStream_t stream);
  // Reduce-scatter in the node, all-reduce along the rail, all-gather in the node; elements that
  // the node's ranks cannot share evenly are all-reduced by both, one after the other.
  void hierarchical_all_reduce(std::size_t node, std::size_t rail, const Call& call,
                               cudaStream_t stream);

  // Errors that NCCL met by itself, as a sentence; empty: none. From any thread.
  std::string asynchronous_error() const;
  // Ends all operations under way with an error, on this rank and, through closed connections, on
  // its partners. From any thread, once.
  void abort();

 private:
  struct Member {
    Communicator communicator;
    ncclComm_t handle = nullptr;
  };
  void make(Member& member, Transport& control, std::chrono::milliseconds timeout);
  // The handle; throws once communication was aborted, as handles are gone then.
  ncclComm_t handle(std::size_t index) const;
  void check_call(ncclResult_t result, std::size_t index, const char* what) const;

  std::vector<Member> members_;
  int device_ = 0;
  mutable std::mutex mutex_;  // of aborting beside asynchronous_error()
  std::atomic<bool> aborted_{false};
};

}  // namespace real
