// The class of an activity of a device: its part in a step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/trace/traced_run.hpp"

namespace sim {

enum class ActivityClass : std::uint8_t { compute, communication, copy, of_host };

ActivityClass class_of_activity(const DeviceActivity& activity);

// Kinds of kernels in the terms of the field: "matrix products", "attention", "optimizer",
// "memory-bound", "collectives", "messages".
std::string_view category_of(OpKind kind);

// The words for a group: its description, else "group of 8", else its name.
std::string label_of_group(const TracedRun& run, std::int32_t group);

// "all_gather", "message", or "collective" where the kind is not told.
std::string_view name_of_call(const CollectiveCall& call);

// The call of a communication kernel; empty fields where it is not told.
CollectiveCall call_of(const RunRank& rank, const DeviceActivity& activity);

// Spans of the host with a meaning for an idle device.
bool loads_data(std::string_view name);
bool waits_for_device(std::string_view name);

// kernel_words() is a name of a kernel without its template arguments and parameters.
std::string kernel_words(std::string_view name);

}  // namespace sim
