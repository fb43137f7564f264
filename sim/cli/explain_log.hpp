// A log of steps alone, without kernels: what `stepcast explain` says of it.
#pragma once

#include <string>
#include <string_view>

#include "sim/scenario/scenario.hpp"

namespace sim {

// is_step_log() says whether a text begins as a log that stepcast.watch writes.
bool is_step_log(std::string_view head);

// step_log_text() is the scatter of the steps of a training log, and their median beside the
// forecast of `scenario`, where that is given. Throws InputError, as read_training_log() does.
std::string step_log_text(const std::string& path, const Scenario* scenario);

}  // namespace sim
