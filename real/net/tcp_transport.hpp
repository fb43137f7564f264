// The ranks' end of a joined tcp world. Room-internal: join_tcp_world makes it.
#pragma once

#include <memory>
#include <vector>

#include "real/net/tcp_socket.hpp"
#include "real/net/transport.hpp"

namespace real {

// REQUIRES: one open socket per rank, none for the own.
std::unique_ptr<Transport> make_tcp_transport(int rank, std::vector<Socket> sockets);

}  // namespace real
