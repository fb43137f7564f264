// The NCCL communicators of a rank: made, connected, watched, left. They may outlive the runs that
// use them: making and connecting one takes longer than many a step.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "real/cuda/nccl/communicators.hpp"
#include "real/net/transport.hpp"

namespace real {

class Patient;

class NcclPool {
 public:
  NcclPool();  // of the thread's device
  // Leaves all together with the partners. REQUIRES: no graph holds an operation of a communicator:
  // NCCL waits for those.
  ~NcclPool();
  NcclPool(const NcclPool&) = delete;
  NcclPool& operator=(const NcclPool&) = delete;

  // Places of communicators; those that are missing are made and connected, in the order of the
  // list. Collective over all ranks of the plan: ids travel over `control`. The setting NCCL_ALGO
  // of the process is changed while a communicator with an algorithm of its own is made.
  std::vector<std::size_t> take(const std::vector<Communicator>& wanted, Transport& control,
                                std::chrono::milliseconds timeout);
  // A communicator for the length of a call: it is not freed under it. Throws once communication
  // was aborted, as handles are gone then.
  class Use {
   public:
    Use(const NcclPool& pool, std::size_t place);
    ~Use() { --pool_.calls_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ncclComm_t handle() const { return handle_; }

   private:
    const NcclPool& pool_;
    ncclComm_t handle_ = nullptr;
  };

  // Errors that NCCL met by itself, as a sentence; empty: none. From any thread.
  std::string asynchronous_error() const;
  // Ends all operations under way with an error, on this rank and, through closed connections, on
  // its partners. From any thread, once; returns when the last graph that holds an operation is
  // gone, as NCCL does.
  void abort();

 private:
  struct Entry {
    Communicator communicator;  // as its last user knows it
    int twin = 0;  // of the communicators of the same ranks and algorithm that a run uses: which
    ncclComm_t handle = nullptr;
  };
  std::size_t find(const Communicator& wanted, int twin) const;
  void make(Entry& entry, Transport& control, std::chrono::milliseconds timeout);
  void connect(const Entry& entry, std::chrono::milliseconds timeout);
  void leave();
  // The result of a call that waits for partners; throws after `timeout`, naming the communicator.
  ncclResult_t result_of(Patient& call, const Entry& entry, std::chrono::milliseconds timeout,
                         const char* what);

  std::vector<Entry> entries_;
  int device_ = 0;
  std::unique_ptr<Patient> behind_;  // a call that was not waited for to its end
  mutable std::mutex mutex_;         // of aborting beside asynchronous_error()
  std::atomic<bool> aborted_{false};
  mutable std::atomic<int> calls_{0};  // under way, of Use
};

}  // namespace real
