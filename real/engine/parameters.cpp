#include "real/engine/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "real/engine/model_sites.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"
#include "sim/model/key_heads.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace real {
namespace {

using sim::Function;
using sim::ModelOp;
using sim::ModelOpKind;
using sim::TensorSplit;

// GPT-2 (Radford et al. 2019, section 2.3; released code, src/model.py): normal weights of
// deviation 0.02, those of residual projections scaled by 1 / sqrt(N), N the residual layers, two
// per block; biases zero, norms one and zero. Megatron-LM's init_method_std and
// scaled_init_method_normal are the same.
constexpr double deviation = 0.02;

bool has_shift(Function function) {
  return function == Function::layer_norm;
}

// Adds a norm's scales and shifts by their names. Norms of heads have a pair for queries and for
// keys.
void add_norm(const std::string& name, const ModelOp& op, std::vector<Parameter>& to) {
  const bool heads = op.split == TensorSplit::inner;
  const auto add = [&](const std::string& prefix) {
    to.push_back({prefix + ".weight", op.in_features, 1, InitialValues::ones, 0});
    if (has_shift(op.function))
      to.push_back({prefix + ".bias", op.in_features, 1, InitialValues::zeros, 0});
  };
  if (!heads) return add(name);
  add(name + ".query");
  add(name + ".key");
}

void add_op(const std::string& prefix, const ModelOp& op, std::size_t layers,
            std::vector<Parameter>& to) {
  const std::string name = prefix + op.name;
  if (op.kind == ModelOpKind::norm) return add_norm(name, op, to);
  if (op.weights > 0) {
    const bool table = !sim::is_product(op);
    const std::int64_t matrices = std::max<std::int64_t>(1, op.experts);
    const bool projection = op.split == TensorSplit::row;
    const double scale = projection ? 1 / std::sqrt(2.0 * static_cast<double>(layers)) : 1.0;
    to.push_back(
        {name + ".weight", table ? op.weights / op.out_features : matrices * op.out_features,
         table ? op.out_features : op.in_features, InitialValues::normal, deviation * scale});
  }
  if (op.biases > 0) to.push_back({name + ".bias", op.biases, 1, InitialValues::zeros, 0});
}

std::string prefix_of(const sim::Site& site) {
  return site.place == sim::BlockPlace::layer ? fmt::format("layers.{}.", site.layer) : "";
}

// Lays out the pieces of one site behind each other.
class SitePieces {
 public:
  SitePieces(const BoundProgram& bound, const std::map<std::string, std::uint32_t>& index,
             const std::vector<Parameter>& parameters, std::vector<Piece>& to)
      : bound_{bound},
        index_{index},
        parameters_{parameters},
        to_{to},
        tensor_{bound.plan->layout.tensor_parallel},
        tensor_rank_{bound.at.tensor} {}

  void add(const sim::Site& site, const ModelOp& op) {
    site_ = &site;
    at_ = site.first;
    bucket_ = site.bucket;
    const std::string name = prefix_of(site) + op.name;
    if (op.kind == ModelOpKind::norm) {
      add_norm_pieces(name, op);
    } else if (op.experts > 0) {
      add_experts(name + ".weight", op);
    } else if (op.kind == ModelOpKind::linear) {
      add_linear(op.tied_to_embedding ? table_name() : name, op);
    } else if (op.split == TensorSplit::vocabulary) {
      add_rows(name + ".weight", padded(op.in_features));
    } else {
      add_whole(name + ".weight");
    }
    SIM_CHECK(at_ == site.first + site.elements, name, at_, site.first, site.elements);
  }

 private:
  std::string table_name() const { return bound_.model->input.ops.front().name; }

  // Rows of a table or a head over the vocabulary, with what it is padded to.
  std::int64_t padded(std::int64_t features) const {
    return sim::padded_vocabulary(features, tensor_);
  }

  void add_norm_pieces(const std::string& name, const ModelOp& op) {
    std::vector<Parameter> own;
    add_norm(name, op, own);
    for (const Parameter& parameter : own)
      add_whole(parameter.name);
  }

  void add_whole(const std::string& name) {
    const Parameter& parameter = find(name);
    put(name, 0, parameter.rows, 0, parameter.columns);
  }

  // This rank's share of `rows` rows that the tensor ranks share; those beyond the parameter's own
  // are padding.
  void add_rows(const std::string& name, std::int64_t rows) {
    const Parameter& parameter = find(name);
    const std::int64_t share = rows / tensor_;
    const std::int64_t first = tensor_rank_ * share;
    const std::int64_t real = std::clamp<std::int64_t>(parameter.rows - first, 0, share);
    if (real > 0) put(name, first, real, 0, parameter.columns);
    at_ += (share - real) * parameter.columns;
  }

  void add_linear(const std::string& name, const ModelOp& op) {
    const std::string weight = name + ".weight", bias = name + ".bias";
    switch (op.split) {
      case TensorSplit::vocabulary:
        add_rows(weight, padded(op.out_features));
        if (op.biases > 0) add_rows(bias, padded(op.out_features));
        return;
      case TensorSplit::column:
        add_column(weight, op);
        if (op.biases > 0) add_column(bias, op);
        return;
      case TensorSplit::row: {
        const Parameter& parameter = find(weight);
        const std::int64_t share = parameter.columns / tensor_;
        put(weight, 0, parameter.rows, tensor_rank_ * share, share);
        break;
      }
      default:
        add_whole(weight);
    }
    if (op.biases > 0) add_whole(bias);
  }

  void add_column(const std::string& name, const ModelOp& op) {
    // Gathered before they are taken apart: equal rows for each rank.
    if (parts_of(op).size() == 3 && sim::shares_key_heads(*bound_.model, tensor_))
      return add_rows(name, find(name).rows);
    const std::int64_t rows = add_matrix_rows(name, op, {tensor_, tensor_rank_}, 0);
    SIM_CHECK(rows == find(name).rows, name, rows, find(name).rows);
  }

  // This rank's rows of the matrix that begins at row `first`; all rows of that matrix.
  std::int64_t add_matrix_rows(const std::string& name, const ModelOp& op,
                               const FeatureShare& share, std::int64_t first) {
    const std::int64_t columns = find(name).columns;
    std::int64_t rows = 0;
    for (const std::int64_t part : parts_of(op)) {
      const std::int64_t own = part / share.ranks;
      put(name, first + rows + share.rank * own, own, 0, columns);
      rows += part;
    }
    return rows;
  }

  // The matrices of all experts of a layer are one parameter, one below the other.
  void add_experts(const std::string& name, const ModelOp& op) {
    const FeatureShare features = feature_share(bound_, op);
    const ExpertShare experts = expert_share(bound_, op);
    const std::int64_t columns = find(name).columns / features.ranks;
    for (std::int64_t i = 0; i < experts.count; ++i) {
      const std::int64_t row = (experts.first + i) * op.out_features;
      if (op.split == TensorSplit::column) {
        add_matrix_rows(name, op, features, row);
      } else {
        put(name, row, op.out_features, features.rank * columns, columns);
      }
    }
  }

  // Rows of the matrices that lie in one, as the operator that reads the outputs takes them apart.
  std::vector<std::int64_t> parts_of(const ModelOp& op) const {
    const std::vector<ModelOp>& ops = block_of(*bound_.model, *site_).ops;
    for (auto next = static_cast<std::size_t>(site_->op) + 1; next < ops.size(); ++next) {
      const Function function = ops[next].function;
      if (function == Function::attention) {
        const sim::AttentionShape& attention = bound_.model->attention;
        const std::int64_t kv = attention.kv_heads * attention.head_dim;
        return {op.out_features - 2 * kv, kv, kv};
      }
      if (function == Function::swiglu || function == Function::geglu)
        return {op.out_features / 2, op.out_features / 2};
      if (ops[next].split != TensorSplit::inner) break;
    }
    return {op.out_features};
  }

  const Parameter& find(const std::string& name) const {
    const auto found = index_.find(name);
    SIM_CHECK(found != index_.end(), name);
    return parameters_[found->second];
  }

  void put(const std::string& name, std::int64_t row, std::int64_t rows, std::int64_t column,
           std::int64_t columns) {
    to_.push_back({index_.at(name), bucket_, at_, rows, columns, row, column});
    at_ += rows * columns;
  }

  const BoundProgram& bound_;
  const std::map<std::string, std::uint32_t>& index_;
  const std::vector<Parameter>& parameters_;
  std::vector<Piece>& to_;
  int tensor_ = 1;
  std::int64_t tensor_rank_ = 0;
  const sim::Site* site_ = nullptr;
  std::int64_t at_ = 0;
  std::uint32_t bucket_ = 0;
};

}  // namespace

std::vector<Parameter> parameters_of(const sim::Model& model) {
  std::vector<Parameter> parameters;
  for (const ModelOp& op : model.input.ops)
    add_op("", op, model.layers.size(), parameters);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    for (const ModelOp& op : model.layers[layer].ops)
      add_op(fmt::format("layers.{}.", layer), op, model.layers.size(), parameters);
  }
  for (const ModelOp& op : model.output.ops)
    add_op("", op, model.layers.size(), parameters);
  return parameters;
}

std::vector<Piece> pieces_of(const BoundProgram& bound, const std::vector<Parameter>& parameters) {
  std::map<std::string, std::uint32_t> index;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    index[parameters[i].name] = static_cast<std::uint32_t>(i);
  std::vector<Piece> pieces;
  SitePieces lay{bound, index, parameters, pieces};
  const auto& sites = bound.program->sites;
  for (const sim::Site& site : sites) {
    if (site.elements == 0) continue;
    // A tied head in the place of the table: the embedding's site has described it.
    const bool described =
        site.tied && std::any_of(sites.begin(), sites.end(), [&](const sim::Site& other) {
          return !other.tied && other.elements > 0 && other.bucket == site.bucket &&
                 other.first == site.first;
        });
    if (!described) lay.add(site, model_op(*bound.model, site));
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.bucket != b.bucket ? a.bucket < b.bucket : a.first < b.first;
  });
  return pieces;
}

}  // namespace real
