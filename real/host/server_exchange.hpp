// The exchange of a bucket with parameter servers, as one that makes progress bit by bit.
#pragma once

#include <memory>

#include "real/host/communication.hpp"
#include "real/host/parameter_servers.hpp"

namespace real {

// Starts the exchange of the part of a bucket that a rank owns, `all`: one part after another.
// `servers` and the memory that the push refers to outlive it.
std::unique_ptr<HostExchange> start_server_exchange(ParameterServers& servers,
                                                    const ServerPush& all);

}  // namespace real
