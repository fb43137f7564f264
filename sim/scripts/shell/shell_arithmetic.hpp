// Whole numbers as a shell calculates them: "$((TP * PP))".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sim {

// nullopt: a name that `value_of` does not know, no expression, a division by zero, or a number
// beyond 2^53.
std::optional<std::int64_t> shell_arithmetic(
    std::string_view text,
    const std::function<std::optional<std::string>(const std::string& name)>& value_of);

}  // namespace sim
