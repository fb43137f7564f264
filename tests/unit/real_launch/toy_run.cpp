// A run without arithmetic: each step has three operators, the last an all-reduce of the rank
// numbers.
//   toy_run [threads|processes] RANKS STEPS [--inject FAULT] [--timeout MS] [--pause MS]
//           [--ranks-per-gpu N] [--all-output] [--master A:P --rank R --world-size N]
//           [--secret-file FILE | --insecure]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "real/launch/launch.hpp"
#include "real/net/collectives.hpp"

namespace {

struct Options {
  real::Launch launch;
  int steps = 3;
  std::chrono::milliseconds pause{0};
  bool show_gpu = false;
};

Options options_of(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Options options;
  options.launch.arguments = words;
  if (words.size() < 3) throw std::invalid_argument{"toy_run threads|processes RANKS STEPS"};
  options.launch.kind = words[0] == "threads" ? real::RankKind::threads : real::RankKind::processes;
  options.launch.ranks = std::stoi(words[1]);
  options.steps = std::stoi(words[2]);
  options.launch.join_timeout = std::chrono::seconds{20};
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto value = [&] { return words.at(++i); };
    if (words[i] == "--inject")
      options.launch.inject = value();
    else if (words[i] == "--timeout")
      options.launch.failure_timeout = std::chrono::milliseconds{std::stoi(value())};
    else if (words[i] == "--pause")
      options.pause = std::chrono::milliseconds{std::stoi(value())};
    else if (words[i] == "--ranks-per-gpu")
      options.launch.ranks_per_gpu = std::stoi(value());
    else if (words[i] == "--all-output")
      options.launch.all_output = true;
    else if (words[i] == "--show-gpu")
      options.show_gpu = true;
    else if (words[i] == "--master")
      options.launch.world.master = value();
    else if (words[i] == "--rank")
      options.launch.world.rank = std::stoi(value());
    else if (words[i] == "--secret-file")
      options.launch.world.secret_file = value();
    else if (words[i] == "--insecure")
      options.launch.world.insecure = true;
    else if (words[i] == "--world-size")
      options.launch.world.world_size = std::stoi(value());
    else
      throw std::invalid_argument{"unknown: " + words[i]};
  }
  options.launch.operator_name = [](int, std::int64_t op) {
    return std::vector<std::string>{"forward", "backward", "gradient sum"}.at(
        static_cast<std::size_t>(op));
  };
  return options;
}

float all_reduce(real::Seat& seat) {
  std::vector<int> members(static_cast<std::size_t>(seat.world().size));
  std::iota(members.begin(), members.end(), 0);
  auto value = static_cast<float>(seat.world().rank);
  const auto run = real::start_collective(
      seat.transport(),
      {.members = members, .output = std::as_writable_bytes(std::span{&value, 1})});
  while (!run->progress()) {
    seat.heartbeat().waiting();
    seat.transport().idle();
  }
  return value;
}

// A line in one write: other processes, and mpirun itself, write to the same place meanwhile.
void print_line(std::ostream& out, const std::string& line) {
  out << line + "\n" << std::flush;
}

void run_rank(const Options& options, real::Seat& seat) {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string{value == nullptr ? "-" : value};
  };
  if (options.show_gpu)
    print_line(std::cerr, "share " + text("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") + " host " +
                              text("NCCL_HOSTID") + " over " + text("NCCL_SOCKET_IFNAME"));
  for (int step = 0; step < options.steps; ++step) {
    if (seat.stop_wanted()) {
      if (seat.world().rank == 0) print_line(std::cout, "stopped");
      return;
    }
    seat.inject_fault(step);
    seat.heartbeat().begin_step(step);
    seat.heartbeat().begin(0);
    seat.heartbeat().begin(1);
    std::this_thread::sleep_for(options.pause);
    seat.heartbeat().begin(2);
    const float sum = all_reduce(seat);
    if (seat.world().rank == 0) print_line(std::cout, fmt::format("step {} sum {}", step, sum));
  }
  print_line(std::cout, fmt::format("rank {} done", seat.world().rank));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = options_of(argc, argv);
    const real::RunResult result =
        real::run_ranks(options.launch, [&](real::Seat& seat) { run_rank(options, seat); });
    if (!result.message.empty()) print_line(std::cerr, "stepcast: " + result.message);
    return result.end == real::RunEnd::done ? 0 : result.end == real::RunEnd::failed ? 1 : 130;
  } catch (const std::exception& error) {
    print_line(std::cerr, std::string{"stepcast: "} + error.what());
    return 2;
  }
}
