#include "sim/cli/failure.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/base/machine_memory.hpp"
#include "sim/distribute/job.hpp"

namespace sim {

Failure current_failure() {
  try {
    throw;
  } catch (const InputError& error) {
    std::string text;
    std::vector<std::string> files;
    for (const Problem& problem : error.problems()) {
      if (!text.empty() && !text.ends_with('\n')) text += '\n';
      text += to_text(problem);
      files.push_back(problem.where.file);
    }
    return {text, ExitCode::invalid_input, std::move(files)};
  } catch (const WrongUse& error) {
    return {std::string{"stepcast: "} + error.what(), ExitCode::usage};
  } catch (const WrongLaunch& error) {
    const std::string why = error.what();
    return {why.empty() ? "" : "stepcast: " + why, ExitCode::usage};
  } catch (const RankFailed& error) {
    return {std::string{"stepcast: "} + error.what(), static_cast<ExitCode>(error.code())};
  } catch (const std::bad_alloc&) {
    return {fmt::format("stepcast: out of memory: {:.1f} GB is to be had here. A forecast needs "
                        "memory in proportion to the operators of its programs: fewer "
                        "micro-batches (layout.global_batch, layout.micro_batch), layers or "
                        "stages need less; so does a search with fewer threads",
                        static_cast<double>(machine_memory().count()) / 1e9),
            ExitCode::failed};
  } catch (const std::exception& error) {
    return {std::string{"stepcast: "} + error.what(), ExitCode::failed};
  }
}

}  // namespace sim
