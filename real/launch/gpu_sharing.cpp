#include "real/launch/gpu_sharing.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace real {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* program = "nvidia-cuda-mps-control";
// Beside PATH: NVIDIA's container images and GKE's nodes, NVIDIA's GPU operator, WSL, Debian.
const std::vector<std::string> program_folders{"/usr/bin",
                                               "/usr/local/nvidia/bin",
                                               "/usr/local/cuda/bin",
                                               "/run/nvidia/driver/usr/bin",
                                               "/opt/nvidia/bin",
                                               "/usr/lib/wsl/lib",
                                               "/usr/lib/nvidia/current"};

std::string program_file() {
  const char* const path = std::getenv("PATH");
  return find_program(program, path == nullptr ? "" : path, program_folders);
}

struct Finished {
  bool in_time = false;
  int status = 0;
};

// Runs the program with the service's folder, its standard input from `input`, until it ends or
// time is up. The daemon that it leaves behind keeps neither our pipes nor our terminal.
Finished run_control(const std::string& folder, std::vector<const char*> arguments,
                     const std::string& input, std::chrono::milliseconds limit) {
  const std::string input_file = folder + "/input";
  std::ofstream{input_file} << input;
  const std::string file = program_file();
  arguments.insert(arguments.begin(), program);
  arguments.push_back(nullptr);
  const std::string output_file = folder + "/output";
  const pid_t child = ::fork();
  if (child < 0)
    throw std::runtime_error{
        fmt::format("cannot start {}: {}", program, std::generic_category().message(errno))};
  if (child == 0) {
    const int in = ::open(input_file.c_str(), O_RDONLY);
    const int out = ::open(output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::closefrom(3);
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", folder.c_str(), 1);
    ::setenv("CUDA_MPS_LOG_DIRECTORY", folder.c_str(), 1);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execv(file.c_str(), const_cast<char* const*>(arguments.data()));
    ::_exit(127);
  }
  Finished finished;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(child, &finished.status, WNOHANG) == child) return {true, finished.status};
    std::this_thread::sleep_for(10ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &finished.status, 0);
  return finished;
}

std::string first_line_of(const std::string& file) {
  std::ifstream stream{file};
  std::string line;
  std::getline(stream, line);
  return line;
}

// The daemon writes its process id there.
pid_t daemon_of(const std::string& folder) {
  std::ifstream file{folder + "/nvidia-cuda-mps-control.pid"};
  pid_t pid = 0;
  file >> pid;
  return pid;
}

}  // namespace

std::string find_program(const std::string& name, const std::string& path,
                         const std::vector<std::string>& besides) {
  std::vector<std::string> folders;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  folders.insert(folders.end(), besides.begin(), besides.end());
  for (const std::string& folder : folders) {
    const std::string file = folder + "/" + name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::map<std::string, std::string> sharing_environment(const GpuSharing& sharing, int local_rank) {
  return {{"CUDA_MPS_PIPE_DIRECTORY", sharing.folder},
          {"CUDA_MPS_LOG_DIRECTORY", sharing.folder},
          {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", fmt::format("{}", 100 / sharing.ranks_per_gpu)},
          {"NCCL_HOSTID", fmt::format("stepcast-rank-{}", local_rank)},
          {"NCCL_SOCKET_IFNAME", "lo"}};
}

MpsService::MpsService() {
  std::string folder = (fs::temp_directory_path() / "stepcast-mps-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr)
    throw std::runtime_error{fmt::format("cannot make the folder {}: {}", folder,
                                         std::generic_category().message(errno))};
  folder_ = folder;
  const Finished start = run_control(folder_, {"-d"}, "", 20s);
  if (start.in_time && WIFEXITED(start.status) && WEXITSTATUS(start.status) == 0) return;
  std::string why = first_line_of(folder_ + "/output");
  if (!start.in_time)
    why = "it does not end";
  else if (WIFEXITED(start.status) && WEXITSTATUS(start.status) == 127)
    why = fmt::format("there is no such program on PATH or in {}; it comes with the NVIDIA driver",
                      fmt::join(program_folders, ", "));
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  throw std::runtime_error{
      fmt::format("cannot share a GPU between ranks: {} -d: {}", program, why)};
}

MpsService::~MpsService() {
  try {
    const pid_t daemon = daemon_of(folder_);
    run_control(folder_, {}, "quit\n", 10s);
    for (int i = 0; i < 300 && daemon > 0 && ::kill(daemon, 0) == 0; ++i)
      std::this_thread::sleep_for(10ms);
    if (daemon > 0 && ::kill(daemon, 0) == 0) ::kill(daemon, SIGKILL);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  } catch (const std::exception&) {
    // Nobody can be told: the run is over either way.
    return;
  }
}

}  // namespace real
