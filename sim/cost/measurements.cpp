// The reader of kernel measurements (CSV).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/cost/kernel_fit.hpp"
#include "sim/cost/measured_kinds.hpp"
#include "sim/model/mixers.hpp"

namespace sim {
namespace {

constexpr std::string_view header =
    "kind,sms,shape,flops,min_bytes,median_us,min_us,max_us,samples";

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// No kernel has more: a forecast of them stays within what a Duration holds.
constexpr std::int64_t most_of_shape = 100'000'000, most_experts = 100'000;
constexpr std::int64_t most_bytes = 1'000'000'000'000'000;
constexpr double most_products = 1e17;

// "M=64 N=768 K=768": the value of one name; absent, too, beyond most_of_shape.
std::optional<std::int64_t> shape_value(std::string_view shape, std::string_view name) {
  for (const std::string_view part : split(shape, ' ')) {
    if (part.size() <= name.size() || !part.starts_with(name) || part[name.size()] != '=') continue;
    const auto value = number<std::int64_t>(part.substr(name.size() + 1));
    return value && *value <= most_of_shape ? value : std::nullopt;
  }
  return std::nullopt;
}

// Rows of products whose `m` rows in the mean are cut at random places, the fullest first: of n
// parts of a line the j-th largest is (1/j + ... + 1/n) times their mean (David & Nagaraja 2003,
// Order Statistics, section 6.4).
void cut_at_random(Kernel& kernel) {
  std::vector<double> sizes(static_cast<std::size_t>(kernel.batch));
  double sum = 0;
  for (std::size_t j = sizes.size(); j-- > 0;)
    sizes[j] = static_cast<double>(kernel.m) * (sum += 1.0 / static_cast<double>(j + 1));
  std::size_t next = 0;
  for (std::size_t part = 0; part < kernel.uneven.size(); ++part) {
    const std::int64_t count = uneven_part(kernel.batch, part);
    double all = 0;
    for (std::int64_t i = 0; i < count; ++i)
      all += sizes[next++];
    if (count > 0) kernel.uneven[part] = std::llround(all / static_cast<double>(count));
  }
}

bool read_shape(std::string_view shape, Kernel& kernel) {
  if (kernel.kind == OpKind::gemm) {
    const auto m = shape_value(shape, "M"), n = shape_value(shape, "N"),
               k = shape_value(shape, "K");
    if (!m || !n || !k || *m < 1 || *n < 1 || *k < 1) return false;
    kernel.m = *m, kernel.n = *n, kernel.k = *k;
    if (const auto matrices = shape_value(shape, "E")) {
      if (*matrices < 1 || *matrices > most_experts) return false;
      kernel.batch = *matrices;
    }
  } else if (kernel.kind == OpKind::attention) {
    const auto b = shape_value(shape, "B"), h = shape_value(shape, "H"),
               s = shape_value(shape, "S"), d = shape_value(shape, "D"),
               causal = shape_value(shape, "causal");
    if (!b || !h || !s || !d || !causal || *b < 1 || *h < 1 || *s < 1 || *d < 1) return false;
    kernel.batch = *b, kernel.heads = *h;
    kernel.kv_heads = shape_value(shape, "KV").value_or(*h);
    kernel.m = kernel.n = *s, kernel.k = *d;
    kernel.causal = *causal != 0;
    kernel.window = shape_value(shape, "W").value_or(0);
    if (kernel.kv_heads < 1 || kernel.window < 0) return false;
  } else if (kernel.kind == OpKind::scan) {
    const auto b = shape_value(shape, "B"), h = shape_value(shape, "H"),
               g = shape_value(shape, "G"), s = shape_value(shape, "S"),
               q = shape_value(shape, "Q");
    if (!b || !h || !g || !s || !q || *b < 1 || *h < 1 || *g < 1 || *s < 1 || *q < 1) return false;
    const bool forward = kernel.part == AttentionPart::forward;
    kernel.m = *b * *s, kernel.n = *h, kernel.k = *g;
    kernel.in_sequence = *s / *q * (forward ? Mamba2::forward_step : Mamba2::backward_step);
    kernel.launches = forward ? Mamba2::forward_kernels : Mamba2::backward_kernels;
  } else {
    kernel.launches = static_cast<int>(shape_value(shape, "launches").value_or(1));
    if (kernel.launches < 1 || kernel.launches > 100) return false;
  }
  double products = static_cast<double>(std::max<std::int64_t>(1, kernel.heads));
  for (const std::int64_t size : {kernel.m, kernel.n, kernel.k, kernel.batch})
    products *= static_cast<double>(std::max<std::int64_t>(1, size));
  return products <= most_products;
}

constexpr std::size_t columns = 9;
constexpr std::array<std::string_view, 3> more_columns{"load", "forecast_us", "note"};

using Fields = std::vector<std::string_view>;

// The columns behind the nine. Throws InputError.
Fields read_header(std::string_view line, const SourcePosition& where) {
  Fields extra;
  if (line.substr(0, header.size()) == header && line.size() > header.size())
    extra = split(line.substr(header.size() + 1), ',');
  const bool known = std::ranges::all_of(extra, [](std::string_view name) {
    return std::ranges::find(more_columns, name) != more_columns.end();
  });
  if (!known || (line != header && extra.empty()))
    throw InputError(where, fmt::format("expected the header {}", header));
  return extra;
}

std::optional<Duration> time_of(const Fields& field) {
  const auto median = number<double>(field[5]);
  if (!median || !(*median > 0) || !(*median < 1e12)) return std::nullopt;
  return duration_from_seconds(*median * 1e-6);
}

KernelMeasurement read_row(const MeasuredKind& kind, const Fields& field,
                           const SourcePosition& where) {
  KernelMeasurement row;
  row.kind = kind.name;
  row.shape = field[2];
  row.eager = kind.eager;
  row.fits = kind.fits;
  row.load = kind.load;
  row.kernel = {.kind = kind.kind,
                .dtype = kind.dtype,
                .part = kind.part,
                .scales = kind.scales,
                .grouping = kind.grouping,
                .attention = kind.attention};
  const auto sms = number<int>(field[1]);
  const auto flops = number<double>(field[3]);
  const auto bytes = number<std::int64_t>(field[4]);
  const auto time = time_of(field);
  if (!sms || *sms < 1 || !flops || !bytes || *bytes < 0 || *bytes > most_bytes ||
      (!time && !field[5].empty()) || !read_shape(field[2], row.kernel))
    throw InputError(where, "this row does not hold a shape, counts and a time");
  row.sms = *sms;
  if (kind.grouping == Grouping::rows && kind.name.ends_with("_cut")) cut_at_random(row.kernel);
  row.kernel.flops = Flops{*flops};
  row.kernel.bytes = Bytes{*bytes};
  row.median = time.value_or(Duration{});
  if (kind.cast > 0)
    row.cast = Bytes{std::llround(kind.cast * static_cast<double>(row.kernel.m) *
                                  static_cast<double>(row.kernel.k))};
  return row;
}

// "# gpu: NVIDIA H100 80GB HBM3"; other comments say nothing.
void read_comment(std::string_view line, KernelFile& file) {
  const std::size_t colon = line.find(": ");
  if (!line.starts_with("# ") || colon == std::string_view::npos) return;
  file.facts.emplace_back(line.substr(2, colon - 2), line.substr(colon + 2));
}

}  // namespace

KernelFile parse_kernel_file(std::istream& stream, const std::string& name) {
  KernelFile file;
  std::optional<Fields> extra;
  std::string line, header_line;
  for (int number_of_line = 1; std::getline(stream, line); ++number_of_line) {
    const SourcePosition where{.file = name, .line = number_of_line, .column = 1};
    if (line.starts_with('#')) {
      read_comment(line, file);
      continue;
    }
    if (!extra) {
      header_line = line;
      extra = read_header(header_line, where);
      continue;
    }
    const Fields field = split(line, ',');
    if (field.size() != columns + extra->size())
      throw InputError(where, fmt::format("expected {} fields, found {}", columns + extra->size(),
                                          field.size()));
    const MeasuredKind* const kind = find_measured_kind(field[0]);
    if (kind == nullptr) {
      if (const auto time = time_of(field)) file.others.emplace_back(field[0], *time);
      continue;
    }
    KernelMeasurement row = read_row(*kind, field, where);
    for (std::size_t i = 0; i < extra->size(); ++i) {
      const std::string_view cell = field[columns + i];
      if ((*extra)[i] != "load" || cell.empty()) continue;
      if (cell != "loop" && cell != "step")
        throw InputError(where, fmt::format("load is {}; allowed: loop, step", cell));
      row.load = cell == "step" ? Load::step : Load::loop;
    }
    file.rows.push_back(std::move(row));
  }
  if (!extra)
    throw InputError(SourcePosition{.file = name}, fmt::format("expected the header {}", header));
  return file;
}

KernelFile read_kernel_file(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw InputError(SourcePosition{.file = path}, "cannot be opened");
  return parse_kernel_file(stream, path);
}

std::vector<KernelMeasurement> read_kernel_measurements(const std::string& path) {
  std::vector<KernelMeasurement> rows = read_kernel_file(path).rows;
  std::erase_if(rows, [](const KernelMeasurement& row) { return row.median <= Duration{}; });
  return rows;
}

}  // namespace sim
