// The secret that the ranks of a run prove to each other (real/net/handshake.hpp).
#pragma once

#include <string>

#include "real/launch/world.hpp"

namespace real {

inline constexpr const char* secret_variable = "STEPCAST_JOB_SECRET";

// new_secret draws 256 bits, as hexadecimal digits.
std::string new_secret();

// job_secret is that of --secret-file, else of STEPCAST_JOB_SECRET; empty: there is none. Throws
// std::invalid_argument for one that is too short, and for a file that others could read.
std::string job_secret(const WorldOptions& options, const Environment& environment);

// require_secret throws std::invalid_argument, with what to do, where strangers could reach a run
// that has no secret and is not --insecure.
void require_secret(const World& world, const std::string& secret, const WorldOptions& options);

}  // namespace real
