// NCCL as a library that is opened at first use: a single rank needs none of it.
#include <nccl.h>

#include "real/cuda/forward.hpp"

namespace {

real::SharedLibrary& library() {
  static real::SharedLibrary nccl{"libnccl.so.2"};
  return nccl;
}

}  // namespace

STEPCAST_FORWARD(ncclResult_t, ncclGetVersion, (int* version), (version))
STEPCAST_FORWARD(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))
STEPCAST_FORWARD(const char*, ncclGetErrorString, (ncclResult_t result), (result))
STEPCAST_FORWARD(const char*, ncclGetLastError, (ncclComm_t comm), (comm))
STEPCAST_FORWARD(ncclResult_t, ncclCommInitRankConfig,
                 (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
                 (comm, ranks, id, rank, config))
STEPCAST_FORWARD(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error),
                 (comm, error))
STEPCAST_FORWARD(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm))
STEPCAST_FORWARD(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))
STEPCAST_FORWARD(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm))
STEPCAST_FORWARD(ncclResult_t, ncclGroupStart, (), ())
STEPCAST_FORWARD(ncclResult_t, ncclGroupEnd, (), ())
STEPCAST_FORWARD(ncclResult_t, ncclAllReduce,
                 (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                  ncclComm_t comm, cudaStream_t stream),
                 (from, to, count, type, op, comm, stream))
STEPCAST_FORWARD(ncclResult_t, ncclAllGather,
                 (const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                  cudaStream_t stream),
                 (from, to, count, type, comm, stream))
STEPCAST_FORWARD(ncclResult_t, ncclReduceScatter,
                 (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                  ncclComm_t comm, cudaStream_t stream),
                 (from, to, count, type, op, comm, stream))
STEPCAST_FORWARD(ncclResult_t, ncclSend,
                 (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream),
                 (from, count, type, peer, comm, stream))
STEPCAST_FORWARD(ncclResult_t, ncclRecv,
                 (void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream),
                 (to, count, type, peer, comm, stream))
