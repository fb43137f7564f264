#include "sim/chakra/nodes.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <array>
#include <cmath>
#include <sstream>

#include "sim/base/input_error.hpp"
#include "sim/chakra/et.pb.h"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

namespace wire = stepcast::chakra;

constexpr std::size_t largest_et = std::size_t{1} << 30;

[[noreturn]] void fail_at(const std::string& file, std::size_t message, const std::string& what) {
  throw InputError{SourcePosition{file, 0, 0}, fmt::format("message {}: {}", message, what)};
}

// The number of an attribute, of whichever type it is; empty: it is none.
std::optional<double> number_of(const wire::Attribute& attribute) {
  switch (attribute.value_case()) {
    case wire::Attribute::kDoubleValue:
      return attribute.double_value();
    case wire::Attribute::kFloatValue:
      return static_cast<double>(attribute.float_value());
    case wire::Attribute::kInt32Value:
      return attribute.int32_value();
    case wire::Attribute::kInt64Value:
      return static_cast<double>(attribute.int64_value());
    case wire::Attribute::kUint32Value:
      return attribute.uint32_value();
    case wire::Attribute::kUint64Value:
      return static_cast<double>(attribute.uint64_value());
    case wire::Attribute::kSint32Value:
      return attribute.sint32_value();
    case wire::Attribute::kSint64Value:
      return static_cast<double>(attribute.sint64_value());
    case wire::Attribute::kFixed32Value:
      return attribute.fixed32_value();
    case wire::Attribute::kFixed64Value:
      return static_cast<double>(attribute.fixed64_value());
    case wire::Attribute::kSfixed32Value:
      return attribute.sfixed32_value();
    case wire::Attribute::kSfixed64Value:
      return static_cast<double>(attribute.sfixed64_value());
    case wire::Attribute::kBoolValue:
      return attribute.bool_value() ? 1 : 0;
    default:
      return std::nullopt;
  }
}

class NodeReader {
 public:
  NodeReader(const std::string& file, std::size_t message) : file_{file}, message_{message} {}

  EtNode read(const wire::Node& from) {
    EtNode node;
    node.id = from.id();
    node.name = from.name();
    if (from.type() < 0 || from.type() > 7)
      fail(fmt::format("node {} is of type {}; allowed: 0 to 7", node.id, from.type()));
    node.type = static_cast<EtType>(from.type());
    for (const std::uint64_t on : from.control_dependencies())
      node.dependencies.push_back(on);
    for (const std::uint64_t on : from.data_dependencies())
      node.dependencies.push_back(on);
    node.start_micros = from.start_time_micros();
    node.duration_micros = from.duration_micros();
    constexpr std::uint64_t longest = 1'000'000'000'000;
    if (node.duration_micros > longest)
      fail(fmt::format("node {} takes {} us; allowed: 0 to {}", node.id, node.duration_micros,
                       longest));
    node.values = from.inputs().values();
    for (const wire::Attribute& attribute : from.attributes())
      set(node, attribute);
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_at(file_, message_, what); }

  void set(EtNode& node, const wire::Attribute& attribute) {
    const std::string& name = attribute.name();
    if (name == "is_cpu_op") node.on_host = integer(node, attribute, 1) != 0;
    if (name == "num_ops") node.operations = real(node, attribute, 1e30);
    if (name == "tensor_size") node.tensor_bytes = integer(node, attribute, 1e15);
    if (name == "comm_size") node.comm_bytes = integer(node, attribute, 1e15);
    if (name == "comm_tag") node.tag = rank(node, attribute);
    if (name == "comm_src") node.source = rank(node, attribute);
    if (name == "comm_dst") node.destination = rank(node, attribute);
    if (name == "comm_type")
      node.collective = static_cast<EtCollective>(integer(node, attribute, 9));
    if (name == "pg_name") node.group = group(attribute);
    if (name == "involved_dim")
      for (const bool flag : attribute.flags().values())
        node.dimensions.push_back(flag);
  }

  double real(const EtNode& node, const wire::Attribute& attribute, double most) const {
    const std::optional<double> number = number_of(attribute);
    if (number && *number >= 0 && *number <= most) return *number;
    fail(fmt::format("node {}: {} is {}; allowed: a number from 0 to {:g}", node.id,
                     attribute.name(), number ? fmt::format("{:g}", *number) : "no number", most));
  }
  std::uint64_t integer(const EtNode& node, const wire::Attribute& attribute, double most) const {
    return static_cast<std::uint64_t>(real(node, attribute, most));
  }
  std::uint32_t rank(const EtNode& node, const wire::Attribute& attribute) const {
    return static_cast<std::uint32_t>(integer(node, attribute, 4294967295.0));
  }
  // Some writers give the number of the group, not its name.
  static std::string group(const wire::Attribute& attribute) {
    if (attribute.value_case() == wire::Attribute::kTextValue) return attribute.text_value();
    const std::optional<double> number = number_of(attribute);
    return number ? fmt::format("{:.0f}", *number) : std::string{};
  }

  const std::string& file_;
  std::size_t message_;
};

void attribute(wire::Node& node, const char* name, std::int64_t value) {
  wire::Attribute& made = *node.add_attributes();
  made.set_name(name);
  made.set_int64_value(value);
}

void rank_attribute(wire::Node& node, const char* name, std::uint32_t value) {
  wire::Attribute& made = *node.add_attributes();
  made.set_name(name);
  made.set_int32_value(static_cast<std::int32_t>(value));
}

// Numbers have the types that ASTRA-sim's feeder reads: it takes a number of another type for 0.
void write_work(wire::Node& to, const EtNode& node) {
  wire::Attribute& host = *to.add_attributes();
  host.set_name("is_cpu_op");
  host.set_bool_value(node.on_host);
  if (node.operations > 0) attribute(to, "num_ops", std::llround(node.operations));
  if (node.tensor_bytes > 0) {
    wire::Attribute& size = *to.add_attributes();
    size.set_name("tensor_size");
    size.set_uint64_value(node.tensor_bytes);
  }
  if (node.collective) attribute(to, "comm_type", static_cast<std::int64_t>(*node.collective));
  if (node.comm_bytes > 0) attribute(to, "comm_size", static_cast<std::int64_t>(node.comm_bytes));
  if (node.source) rank_attribute(to, "comm_src", *node.source);
  if (node.destination) rank_attribute(to, "comm_dst", *node.destination);
  if (node.source || node.destination) rank_attribute(to, "comm_tag", node.tag);
  if (node.group.empty()) return;
  wire::Attribute& group = *to.add_attributes();
  group.set_name("pg_name");
  group.set_text_value(node.group);
}

}  // namespace

EtFile parse_et(const std::string& content, const std::string& name) {
  EtFile file{.path = name, .version = {}, .nodes = {}};
  google::protobuf::io::ArrayInputStream input{content.data(), static_cast<int>(content.size())};
  std::size_t message = 1;
  bool clean_end = false;
  wire::Metadata metadata;
  if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&metadata, &input, &clean_end))
    fail_at(name, message, "this is no Chakra execution trace (schema 0.0.4)");
  file.version = metadata.version();
  while (true) {
    wire::Node node;
    ++message;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&node, &input, &clean_end)) {
      if (clean_end) return file;
      fail_at(name, message, "it is cut off or damaged: no node of a Chakra execution trace");
    }
    file.nodes.push_back(NodeReader{name, message}.read(node));
  }
}

EtFile read_et(const std::string& path) {
  return parse_et(load_text(path, largest_et), path);
}

std::string et_text(const EtFile& file) {
  std::ostringstream text;
  wire::Metadata metadata;
  metadata.set_version(file.version);
  google::protobuf::util::SerializeDelimitedToOstream(metadata, &text);
  for (const EtNode& node : file.nodes) {
    wire::Node to;
    to.set_id(node.id);
    to.set_name(node.name);
    to.set_type(static_cast<std::int32_t>(node.type));
    for (const std::uint64_t on : node.dependencies)
      to.add_data_dependencies(on);
    to.set_start_time_micros(node.start_micros);
    to.set_duration_micros(node.duration_micros);
    if (!node.values.empty()) to.mutable_inputs()->set_values(node.values);
    write_work(to, node);
    google::protobuf::util::SerializeDelimitedToOstream(to, &text);
  }
  return std::move(text).str();
}

}  // namespace sim
