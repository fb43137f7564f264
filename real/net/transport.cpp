#include "real/net/transport.hpp"

namespace real {

void wait(Transport& transport, Ticket ticket) {
  while (!transport.done(ticket))
    transport.idle();
}

}  // namespace real
