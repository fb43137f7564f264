#include "sim/cli/failure.hpp"

#include <exception>
#include <utility>

#include "sim/base/input_error.hpp"
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
  } catch (const std::exception& error) {
    return {std::string{"stepcast: "} + error.what(), ExitCode::failed};
  }
}

}  // namespace sim
