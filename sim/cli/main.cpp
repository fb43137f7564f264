// The program `stepcast`: reads the command line, runs one command, turns what goes wrong into a
// message and an exit code. With --work, which every command takes, it says what was counted.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "sim/base/work.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/failure.hpp"
#include "sim/cli/job_hint.hpp"
#include "sim/cli/usage.hpp"
#include "sim/config/input_log.hpp"

namespace {

extern "C" void end_at_once(int) {
  _exit(static_cast<int>(sim::ExitCode::interrupted));
}

void print_work() {
  for (const auto& [work, text] : words_of(sim::Work{}))
    sim::print_note(
        fmt::format("{:<18} {}", text, sim::work_counts[static_cast<std::size_t>(work)].load()));
}

sim::ExitCode run(const std::vector<std::string>& arguments) {
  const sim::InputLog read;  // no command overwrites what it has read
  const sim::Command program = sim::stepcast_program();
  try {
    const sim::Asked asked = sim::read_arguments(program, arguments);
    if (asked.command) return asked.command->run();
    sim::print_result(asked.text);
    return sim::ExitCode::done;
  } catch (const sim::UsageError& error) {
    sim::print_note(sim::usage_error_text(error, arguments));
    return sim::ExitCode::usage;
  } catch (const std::exception&) {
    const sim::Failure failure = sim::current_failure();
    const sim::FileHint hint = sim::file_hint(arguments, failure);
    if (!hint.text.empty()) sim::print_note(hint.text);
    if (!failure.text.empty() && !hint.explains) sim::print_note(failure.text);
    return failure.code;
  }
}

// Plans and simulations come and go by the hundred: what is freed stays with the process, instead
// of being mapped, and cleared by the kernel, again for each.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int mib = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * mib);  // more is not allowed
  mallopt(M_TRIM_THRESHOLD, 1024 * mib);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  std::signal(SIGINT, end_at_once);
  std::signal(SIGXFSZ, SIG_IGN);  // write() fails instead, and says why
  std::vector<std::string> arguments{argv + 1, argv + argc};
  const bool counts = std::erase(arguments, "--work") > 0;
  sim::set_command_text(arguments);
  const sim::ExitCode code = run(arguments);
  if (counts) print_work();
  return static_cast<int>(code);
}
