// Several ranks on one GPU, through a CUDA Multi-Process Service of our own. Without the service
// the ranks' contexts would take turns; with it, each has a share of the SMs to itself. No setting
// of the GPU is touched.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace real {

struct GpuSharing {
  int ranks_per_gpu = 1;
  std::string folder;  // of the service's pipes and logs
};

// The variables that rank `local_rank` of this machine needs beside the usual ones:
//  CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY  our service, not the machine's
//  CUDA_MPS_ACTIVE_THREAD_PERCENTAGE                100/N of the SMs (NVIDIA, Multi-Process
//  Service) NCCL_HOSTID        distinct: NCCL refuses two ranks of one host on one GPU
//  NCCL_SOCKET_IFNAME lo: "hosts" that are this machine talk over its loopback
std::map<std::string, std::string> sharing_environment(const GpuSharing& sharing, int local_rank);

// The file of a program: in a folder of `path` ("/a:/b"), else in one of `besides`; empty: in none.
std::string find_program(const std::string& name, const std::string& path,
                         const std::vector<std::string>& besides);

// Starts nvidia-cuda-mps-control (on PATH, or where drivers put it) in a private folder and ends
// it, and its servers, when destroyed. Throws std::runtime_error naming the program and what it
// said.
class MpsService {
 public:
  MpsService();
  MpsService(const MpsService&) = delete;
  MpsService& operator=(const MpsService&) = delete;
  ~MpsService();
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace real
