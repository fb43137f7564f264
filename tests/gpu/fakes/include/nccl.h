// The part of NCCL that the engine uses, for the fake of it (tests/gpu/fakes/README.md).
#pragma once

#include <climits>
#include <cstddef>

#include "tests/gpu/fakes/include/cuda_runtime_api.h"

using ncclComm_t = struct FakeCommunicator*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t : int { ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2, ncclAvg = 4 };
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { INT_MIN }

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t communicator);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state);
ncclResult_t ncclCommFinalize(ncclComm_t communicator);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator,
                               cudaStream_t stream);
ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream);
