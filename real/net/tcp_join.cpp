// The rendezvous. Every rank but 0 opens a socket of its own, connects to rank 0 and says hello
// behind its proof (handshake.hpp): job, rank, size, the port of its socket. When all are there,
// rank 0 tells everyone where the others are, and each rank connects to those below it. Connections
// to rank 0 are kept.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <thread>

#include "real/net/handshake.hpp"
#include "real/net/tcp.hpp"
#include "real/net/tcp_socket.hpp"
#include "real/net/tcp_transport.hpp"
#include "sim/base/check.hpp"
#include "sim/base/printable.hpp"

namespace real {
namespace {

constexpr std::size_t most_job_bytes = 256;
constexpr std::size_t most_text_bytes = 4096;
// Connections that have proven nothing, beside one for each rank: the oldest makes room.
constexpr std::size_t most_strangers = 64;
// How long no connection is taken where the system has no descriptor for one.
constexpr std::chrono::milliseconds exhausted_pause{100};

struct Hello {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t port = 0;  // where this rank listens
  std::uint32_t job_bytes = 0;
  std::array<char, most_job_bytes> job{};
};
static_assert(sizeof(Hello) == 16 + most_job_bytes);

struct Answer {
  Proof proof{};
  Hello hello{};
};

enum class Verdict : std::uint32_t { welcome = 1, refused = 2, incomplete = 3 };

struct Reply {
  std::uint64_t magic = wire_magic;
  Verdict verdict = Verdict::welcome;
  std::int32_t rank = -1;        // incomplete: the one to blame
  std::uint32_t text_bytes = 0;  // of the reason that follows; welcome: the table follows
  std::uint32_t unused = 0;
};

Hello hello_of(const TcpWorld& world, int port) {
  Hello hello{.rank = world.rank,
              .size = world.size,
              .port = static_cast<std::uint32_t>(port),
              .job_bytes = static_cast<std::uint32_t>(world.job.size())};
  std::copy(world.job.begin(), world.job.end(), hello.job.begin());
  return hello;
}
std::string job_of(const Hello& hello) {
  return {hello.job.data(), std::min<std::size_t>(hello.job_bytes, most_job_bytes)};
}

// "rank 2" or "ranks 2, 3 and 5"; of many the first eight.
std::string names_of(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::string text = "ranks";
  const std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{} {}", i == 0 ? "" : last ? " and" : ",", ranks[i]);
  }
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

std::string seconds_of(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

void send_verdict(const Socket& socket, Verdict verdict, int rank, const std::string& text) {
  // Whoever does not take it within a second is told by the close of its connection.
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds{1};
  const Reply reply{
      .verdict = verdict, .rank = rank, .text_bytes = static_cast<std::uint32_t>(text.size())};
  if (send_all(socket, bytes_of_value(reply), deadline) == Moved::all)
    send_all(socket, std::as_bytes(std::span{text}), deadline);
}

// Takes connections until every rank that is expected has said hello. Nobody can hold it up: what
// guests say is read as it comes, and those that do not prove themselves in time are sent away.
class Reception {
 public:
  Reception(const TcpWorld& world, std::span<const Socket> listeners, int first_expected)
      : world_{world}, listeners_{listeners}, first_{first_expected} {
    sockets.resize(static_cast<std::size_t>(world.size));
    addresses.resize(static_cast<std::size_t>(world.size));
  }

  // Ranks that have not come by the deadline.
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = first_; rank < world_.size; ++rank)
      if (!sockets[static_cast<std::size_t>(rank)].is_open()) ranks.push_back(rank);
    return ranks;
  }

  bool run(Deadline deadline) {
    while (!missing().empty()) {
      const Deadline now = std::chrono::steady_clock::now();
      if (now >= deadline) return false;
      send_late_away();
      const bool rests = now < listens_again_;
      std::vector<pollfd> waiting;
      for (const Guest& guest : guests_)
        waiting.push_back({guest.socket.handle(), POLLIN, 0});
      for (const Socket& listener : listeners_)
        waiting.push_back({rests ? -1 : listener.handle(), POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), patience(deadline, rests)) <= 0) continue;
      const std::size_t heard = guests_.size();
      for (std::size_t i = heard; i-- > 0;)
        if (waiting[i].revents != 0 && hear(guests_[i]))
          guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::size_t i = 0; i < listeners_.size(); ++i)
        if (waiting[heard + i].revents != 0) take_guest(listeners_[i]);
    }
    return true;
  }

  std::vector<Socket> sockets;     // by rank
  std::vector<Address> addresses;  // where they listen, as seen from here

 private:
  struct Guest {
    Socket socket{};
    Deadline leaves_at{};
    std::size_t read = 0;  // of its greeting, then of its answer
    bool challenged = false;
    Greeting greeting{};
    Challenge challenge{};
    Answer answer{};
  };

  // Until the deadline, the oldest guest's end, or the listener's.
  int patience(Deadline deadline, bool rests) const {
    int left = milliseconds_until(rests ? std::min(deadline, listens_again_) : deadline);
    if (guests_.empty()) return left;
    const auto guest_left =
        std::chrono::ceil<std::chrono::milliseconds>(guests_.front().leaves_at - world_.clock());
    return static_cast<int>(std::clamp<std::int64_t>(guest_left.count(), 0, left));
  }

  void send_late_away() {
    const Deadline now = world_.clock();
    while (!guests_.empty() && now >= guests_.front().leaves_at)
      guests_.pop_front();
  }

  void take_guest(const Socket& listener) {
    std::optional<Socket> socket = accept_from(listener);
    if (socket) {
      if (guests_.size() >= most_strangers + sockets.size()) guests_.pop_front();
      guests_.push_back(
          {.socket = std::move(*socket), .leaves_at = world_.clock() + world_.guest_time});
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the queue of the listener.
      if (guests_.empty()) listens_again_ = std::chrono::steady_clock::now() + exhausted_pause;
      if (!guests_.empty()) guests_.pop_front();
    }
  }

  // Reads what has come; true: the guest has a seat or was sent away.
  bool hear(Guest& guest) {
    if (!guest.challenged) {
      const Heard heard = read(guest, bytes_of_value(guest.greeting));
      // Other programs' connections end here.
      const bool says_magic = guest.read < sizeof wire_magic || guest.greeting.magic == wire_magic;
      if (heard != Heard::all) return heard == Heard::closed || !says_magic;
      if (!says_magic || !challenge(guest)) return true;
    }
    const Heard heard = read(guest, bytes_of_value(guest.answer));
    if (heard == Heard::all) admit(guest);
    return heard != Heard::part;
  }

  enum class Heard : std::uint8_t { all, part, closed };
  static Heard read(Guest& guest, std::span<std::byte> all) {
    while (guest.read < all.size()) {
      const ssize_t count = ::recv(guest.socket.handle(), all.data() + guest.read,
                                   all.size() - guest.read, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Heard::part;
      if (count <= 0) return Heard::closed;
      guest.read += static_cast<std::size_t>(count);
    }
    return Heard::all;
  }

  // A new connection has room for it; one that has not is no rank's.
  bool challenge(Guest& guest) const {
    guest.challenge = challenge_to(guest.greeting, world_.secret);
    guest.challenged = true;
    guest.read = 0;
    return ::send(guest.socket.handle(), &guest.challenge, sizeof guest.challenge,
                  MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof guest.challenge);
  }

  // Gives a guest its seat. What it says is looked at only if it knows the secret.
  void admit(Guest& guest) {
    const Hello& hello = guest.answer.hello;
    const Proof expected =
        guest_proof(guest.greeting, guest.challenge, bytes_of_value(hello), world_.secret);
    if (!is_equal(guest.answer.proof, expected)) return;
    const std::string problem = problem_with(hello);
    if (!problem.empty()) return send_verdict(guest.socket, Verdict::refused, hello.rank, problem);
    const auto rank = static_cast<std::size_t>(hello.rank);
    addresses[rank] = peer_of(guest.socket);
    addresses[rank].port = hello.port;
    sockets[rank] = std::move(guest.socket);
  }

  std::string problem_with(const Hello& hello) const {
    if (job_of(hello) != world_.job)
      return fmt::format("rank {} belongs to another job than \"{}\"", hello.rank, job_of(hello));
    if (hello.size != world_.size)
      return fmt::format("rank {} expects {} ranks, rank {} expects {}", hello.rank, hello.size,
                         world_.rank, world_.size);
    if (hello.rank < first_ || hello.rank >= world_.size)
      return fmt::format("rank {} is not expected", hello.rank);
    if (sockets[static_cast<std::size_t>(hello.rank)].is_open())
      return fmt::format("there is a rank {} already", hello.rank);
    return "";
  }

  const TcpWorld& world_;
  std::span<const Socket> listeners_;
  int first_;
  std::deque<Guest> guests_;  // in the order of their coming
  Deadline listens_again_{};
};

// Whether others can be reached at `here` only: the name of a machine may mean its loopback
// interface there, as Debian's /etc/hosts has it, and another one elsewhere.
bool suffices(const TcpWorld& world, const Address& here) {
  return !here.is_loopback() || world.one_machine || is_loopback_name(world.master_address);
}

// master_listeners() are where rank 0 listens: at all master addresses that are this machine's.
std::vector<Socket> master_listeners(const TcpWorld& world) {
  std::vector<Socket> listeners;
  if (world.listener >= 0) listeners.emplace_back(world.listener);
  if (world.listener >= 0) return listeners;
  std::vector<Address> addresses = resolve(world.master_address, world.master_port);
  std::erase_if(addresses, [&](const Address& one) { return !suffices(world, one); });
  for (const Address& address : addresses)
    if (std::optional<Socket> listener = listen_at(address, world.size))
      listeners.push_back(std::move(*listener));
  if (addresses.empty()) addresses = all_interfaces(world.master_port);
  if (listeners.empty()) listeners.push_back(listen_at_one_of(addresses, world.size));
  return listeners;
}

// own_listener() is where another rank listens: at the interface through which it reaches rank 0.
Socket own_listener(const TcpWorld& world, Address here) {
  here.port = 0;
  return listen_at_one_of(suffices(world, here) ? std::vector{here} : all_interfaces(0),
                          world.size);
}

std::vector<Socket> join_as_first(const TcpWorld& world, Deadline deadline) {
  const std::vector<Socket> listeners = master_listeners(world);
  Reception reception{world, listeners, 1};
  if (!reception.run(deadline)) {
    const std::vector<int> missing = reception.missing();
    const std::string text =
        fmt::format("{} did not come to {}:{} within {}", names_of(missing), world.master_address,
                    world.master_port, seconds_of(world.join_timeout));
    for (const Socket& socket : reception.sockets)
      if (socket.is_open()) send_verdict(socket, Verdict::incomplete, missing[0], text);
    throw RankFailure{missing[0], text};
  }
  for (int rank = 1; rank < world.size; ++rank) {
    const Socket& socket = reception.sockets[static_cast<std::size_t>(rank)];
    const Reply reply{.rank = 0};
    if (send_all(socket, bytes_of_value(reply), deadline) != Moved::all ||
        send_all(socket, std::as_bytes(std::span{reception.addresses}), deadline) != Moved::all)
      throw RankFailure{rank, fmt::format("rank {} has left while the others joined", rank)};
  }
  return std::move(reception.sockets);
}

// Says hello at a new connection, once its other end has proven to be of this job. Not Moved::all:
// it has closed or not answered. Throws std::runtime_error where it is a stranger.
Moved say_hello(const Socket& socket, const TcpWorld& world, const Hello& hello,
                Deadline deadline) {
  const Greeting greeted = greeting();
  Challenge challenge;
  if (send_all(socket, bytes_of_value(greeted), deadline) != Moved::all) return Moved::closed;
  const Moved moved = receive_all(socket, bytes_of_value(challenge), deadline);
  const bool in_part = moved == Moved::closed && challenge.magic != wire_magic;
  if (in_part || (moved == Moved::all && challenge.magic != wire_magic))
    throw std::runtime_error{
        fmt::format("{} does not answer as a rank of a run", to_text(peer_of(socket)))};
  if (moved != Moved::all) return moved;
  if (!is_proven(challenge, greeted, world.secret))
    throw std::runtime_error{fmt::format(
        "{} does not know the secret of this job: another job listens there, or its secret is "
        "another one",
        to_text(peer_of(socket)))};
  Answer answer{.hello = hello};
  answer.proof = guest_proof(greeted, challenge, bytes_of_value(hello), world.secret);
  return send_all(socket, bytes_of_value(answer), deadline);
}

// Rank 0 may be the last to start, and may close a connection while strangers take all its room.
// `listener` opens where the rank will listen, once it is known how it reaches rank 0.
Socket connect_to_master(const TcpWorld& world, Socket& listener, Deadline deadline) {
  while (true) {
    for (const Address& address : resolve(world.master_address, world.master_port)) {
      std::optional<Socket> socket = connect_to(address, deadline);
      if (!socket) continue;
      listener = own_listener(world, name_of(*socket));
      const Hello hello = hello_of(world, static_cast<int>(name_of(listener).port));
      if (say_hello(*socket, world, hello, deadline) == Moved::all) return std::move(*socket);
    }
    if (milliseconds_until(deadline) == 0)
      throw RankFailure{0,
                        fmt::format("rank 0 did not come to {}:{} within {}", world.master_address,
                                    world.master_port, seconds_of(world.join_timeout))};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

// table_from() is where every rank listens, from rank 0. Throws what rank 0 has to say instead.
std::vector<Address> table_from(const Socket& master, const TcpWorld& world, Deadline deadline) {
  const auto complain = [&](Moved moved) {
    if (moved == Moved::closed)
      throw RankFailure{0, fmt::format("rank 0 at {} has closed its connection to rank {}",
                                       to_text(peer_of(master)), world.rank)};
    if (moved == Moved::late)
      throw RankFailure{0, fmt::format("rank 0 did not answer rank {} within {}", world.rank,
                                       seconds_of(world.join_timeout))};
  };
  Reply reply;
  complain(receive_all(master, bytes_of_value(reply), deadline));
  if (reply.magic != wire_magic || reply.text_bytes > most_text_bytes)
    throw std::runtime_error{
        fmt::format("{} does not answer as rank 0 of a run", to_text(peer_of(master)))};
  std::string text(reply.text_bytes, ' ');
  complain(receive_all(master, std::as_writable_bytes(std::span{text}), deadline));
  text = text.empty() ? "rank 0 does not say why" : sim::printable(text);
  if (reply.verdict == Verdict::refused)
    throw std::runtime_error{
        fmt::format("turned away by rank 0 at {}: {}", to_text(peer_of(master)), text)};
  if (reply.verdict == Verdict::incomplete)
    throw RankFailure{std::clamp(reply.rank, 0, world.size - 1), text};
  std::vector<Address> table(static_cast<std::size_t>(world.size));
  complain(receive_all(master, std::as_writable_bytes(std::span{table}), deadline));
  return table;
}

// Ranks that rank 0 sees on its own machine are on that machine for the others, too.
Address seen_from_here(Address address, const Address& master) {
  if (!address.is_loopback() || master.is_loopback()) return address;
  const std::uint32_t port = address.port;
  address = master;
  address.port = port;
  return address;
}

std::vector<Socket> join_as_other(const TcpWorld& world, Deadline deadline) {
  // Rank 0 gives up by its own clock, and its answer names those who are missing.
  const Deadline patience = deadline + std::chrono::seconds{2};
  Socket listener;
  Socket master = connect_to_master(world, listener, deadline);
  const Hello hello = hello_of(world, static_cast<int>(name_of(listener).port));
  const std::vector<Address> table = table_from(master, world, patience);
  const Deadline mesh_deadline = std::chrono::steady_clock::now() + world.join_timeout;
  Reception reception{world, {&listener, 1}, world.rank + 1};
  for (int rank = 1; rank < world.rank; ++rank) {
    const Address address = seen_from_here(table[static_cast<std::size_t>(rank)], peer_of(master));
    std::optional<Socket> socket = connect_to(address, mesh_deadline);
    if (!socket || say_hello(*socket, world, hello, mesh_deadline) != Moved::all)
      throw RankFailure{rank, fmt::format("rank {} cannot reach rank {} at {}", world.rank, rank,
                                          to_text(address))};
    reception.sockets[static_cast<std::size_t>(rank)] = std::move(*socket);
  }
  if (!reception.run(mesh_deadline)) {
    const std::vector<int> missing = reception.missing();
    throw RankFailure{missing[0],
                      fmt::format("{} did not connect to rank {} within {}", names_of(missing),
                                  world.rank, seconds_of(world.join_timeout))};
  }
  reception.sockets[0] = std::move(master);
  return std::move(reception.sockets);
}

}  // namespace

bool is_loopback_name(const std::string& host) {
  in_addr v4{};
  const bool is_v4 = ::inet_pton(AF_INET, host.c_str(), &v4) == 1;
  return host == "localhost" || host == "::1" || (is_v4 && ntohl(v4.s_addr) >> 24U == 127);
}

Listener listen_on_loopback() {
  // As many as may come before the first is taken; the system caps it.
  Socket socket = listen_at_one_of(loopback(0), 4096);
  const int port = static_cast<int>(name_of(socket).port);
  return {.socket = socket.release(), .port = port};
}

std::unique_ptr<Transport> join_tcp_world(const TcpWorld& world) {
  SIM_CHECK(world.size > 0 && world.rank >= 0 && world.rank < world.size, world.rank, world.size);
  SIM_CHECK(world.job.size() <= most_job_bytes, world.job.size());
  const Deadline deadline = std::chrono::steady_clock::now() + world.join_timeout;
  if (world.size == 1) {
    const Socket unused{world.listener};
    return make_tcp_transport(0, std::vector<Socket>(1));
  }
  return make_tcp_transport(world.rank, world.rank == 0 ? join_as_first(world, deadline)
                                                        : join_as_other(world, deadline));
}

}  // namespace real
