#include "real/net/transport.hpp"

namespace real {

Pending::~Pending() {
  if (!over_) transport_.cancel(ticket_);
}

bool Pending::done() {
  if (over_) return true;
  try {
    over_ = transport_.done(ticket_);
  } catch (const std::logic_error&) {
    over_ = true;  // the ticket is used up
    throw;
  }
  return over_;
}

void Pending::wait() {
  while (!done())
    transport_.idle();
}

void wait(Transport& transport, Ticket ticket) {
  Pending{transport, ticket}.wait();
}

}  // namespace real
