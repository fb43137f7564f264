// The exchange of a bucket with parameter servers, as one that makes progress bit by bit.
#pragma once

#include <memory>

#include "real/host/communication.hpp"
#include "real/host/parameter_servers.hpp"

namespace real {

// Of what a rank owns of a bucket, `all`: one part after another. `servers` and what the push
// refers to outlive it.
std::unique_ptr<HostExchange> start_server_exchange(ParameterServers& servers,
                                                    const ServerPush& all);

}  // namespace real
