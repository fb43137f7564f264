// Environment variables that CUDA and NCCL read when a process uses them first. CUDA-free.
#pragma once

#include "sim/plan/plan.hpp"

namespace real {

// Sets those that the user has not set:
//  CUDA_DEVICE_MAX_CONNECTIONS  16: a work queue for each stream of a plan. Two streams that share
//      one wait for each other in the order of issue, and a receive must not wait for a send that
//      waits for it. 1 to 32, 8 by default (CUDA C++ Programming Guide, "CUDA Environment
//      Variables"); under the Multi-Process Service a client may get fewer unless it asks (MPS,
//      "CUDA_DEVICE_MAX_CONNECTIONS"). Where more than five ranks share a GPU they get fewer,
//      since all clients of the service have 128 channels together, and each takes eight more than
//      it has queues (an H200, driver 580.159: five clients of 16 start, the sixth is out of
//      memory; eight clients of 8 start).
//  NCCL_RUNTIME_CONNECT         0: a communicator connects for all its algorithms when it is made,
//      not in the first collective that uses one, which waits for the other hosts (NCCL
//      v2.28.9-1, src/init.cc:1269, src/enqueue.cc:453).
//  NCCL_ALGO                    empty, which is no choice (parseList in src/graph/tuning.cc): it is
//      changed while a communicator with an algorithm of its own is made, and changing a variable
//      that exists moves nothing under a reader in another thread.
// Call it before the process has threads, as setenv(3) beside getenv(3) is not safe; ranks that are
// started later inherit them.
void set_cuda_environment(int ranks_per_gpu = 1);

// The value of CUDA_DEVICE_MAX_CONNECTIONS for so many ranks on a GPU.
int work_queues(int ranks_per_gpu);

// Whether the steps of a run are captured in CUDA graphs, by STEPCAST_GRAPHS: auto (also unset):
// where the host waits nowhere inside a step, as a graph has no host; on, off. Throws InputError
// for anything else.
bool wants_graphs(const sim::Plan& plan);

}  // namespace real
