// Who sends to whom: the messages of execution traces as the two neighbours that a rank of a plan
// has.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/chakra/et_order.hpp"
#include "sim/chakra/run.hpp"
#include "sim/program/op_work.hpp"

namespace sim {

struct EtMessages {
  // By sender and receiver: the neighbour that the receiver is to the sender.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Peer> way;
  std::vector<std::array<RankId, 2>> peer_of;  // Plan::peer_of; empty: there are no messages
};

// messages_of colours the pairs that send with two ways, so that a rank sends one way to one rank
// and receives that way from one; `orders`: of its ranks. Messages of a pair are matched in the
// order in which they are issued. Throws InputError: a rank sends to more than two others or
// receives from more; a message without its other side, or of another size there; to itself.
EtMessages messages_of(const EtRun& run, const std::vector<EtOrder>& orders);

}  // namespace sim
