#include <mpt/hf/stored_layout.hpp>

#include <utility>

#include <mpt/config/model/lora.hpp>

namespace mpt::hf {
namespace {

using parallel::index;

[[nodiscard]] index rows_of(named_shape const& shape) { return shape.extents.front(); }

[[nodiscard]] index width_of_shape(named_shape const& shape) {
  return shape.extents.size() > 1 ? shape.extents[1] : 1;
}

/// Rows of queries, of keys and of values, which the tensors of a fused projection hold.
[[nodiscard]] std::vector<index> projection_rows(model_config const& model) {
  index const key_rows = kv_heads(model) * head_dim(model);
  return {query_width(model), key_rows, key_rows};
}

/// Calls f(row, rows, tensor row) for the runs of `rows` rows of heads of which the first `turned`
/// rows of each turn in pairs: rows i and turned / 2 + i here, rows 2i and 2i + 1 in the tensor.
template <class F>
void for_each_interleaved_run(index rows, index head_rows, index turned, F const& f) {
  for (index head = 0; head < rows; head += head_rows) {
    for (index i = 0; i < turned; ++i) f(head + i, index{1}, head + interleaved_row(i, turned));
    if (turned < head_rows) f(head + turned, head_rows - turned, head + turned);
  }
}

}  // namespace

index turned_rows(model_config const& model) {
  return model.attn.rope ? model.attn.rope->rotary_dim.value_or(head_dim(model)) : 0;
}

stored_layout::stored_layout(model_family const& family, model_config const& model,
                             std::span<named_shape const> parameters) {
  for (auto const& parameter : parameters) {
    auto const stored = stored_names_of(family, parameter.name);
    parallel::require(stored.has_value(), "the family ", family.model_type, " has no tensor for ",
                      parameter.name);
    add(parameter, *stored, model);
    parameter_pieces_[parameter.name].extents = parameter.extents;
  }
  for (auto& [name, m] : tensor_pieces_) std::ranges::sort(m.pieces, {}, &piece::row);
}

stored_layout::matrix const& stored_layout::find(matrices const& table, std::string const& name) {
  auto const found = table.find(name);
  parallel::require(found != table.end(), "the model has no tensor \"", name, "\"");
  return found->second;
}

void stored_layout::add(named_shape const& parameter, stored_names const& stored,
                        model_config const& model) {
  // the rows of lora_A are indices of the rank, which no family permutes
  bool const is_lora_a = parameter.name.ends_with(lora_a_suffix);
  if (stored.form == tensor_form::transposed && parameter.extents.size() > 1 &&
      !is_adapter(parameter.name))
    return add_transposed(parameter, 0, rows_of(parameter), stored.names.front());
  if (stored.form == tensor_form::experts || stored.form == tensor_form::transposed_experts) {
    index const hidden = expert_hidden(model);
    auto const& pattern = stored.names.front();
    for (index e = 0; e < model.experts->count; ++e) {
      auto const tensor = with_number(pattern, std::to_string(e));
      if (stored.form == tensor_form::transposed_experts) {
        add_transposed(parameter, e * hidden, hidden, tensor);
      } else {
        tensors_.push_back({tensor, {hidden, width_of_shape(parameter)}});
        add_piece(parameter, e * hidden, hidden, tensor, 0);
      }
    }
    return;
  }
  if (stored.form == tensor_form::head_groups && !is_lora_a) {
    index const dim = head_dim(model);
    tensors_.push_back({stored.names.front(), parameter.extents});
    for (index kind = 0; kind < 3; ++kind)  // queries, keys, values
      for (index head = 0; head < model.n_heads; ++head)
        add_piece(parameter, (kind * model.n_heads + head) * dim, dim, stored.names.front(),
                  (3 * head + kind) * dim);
    return;
  }
  auto const rows =
      stored.names.size() > 1 ? projection_rows(model) : std::vector<index>{rows_of(parameter)};
  index row = 0;
  for (std::size_t i = 0; i < stored.names.size(); ++i) {
    auto extents = parameter.extents;
    extents.front() = rows[i];
    tensors_.push_back({stored.names[i], extents});
    bool const is_turned = stored.form == tensor_form::interleaved && !is_lora_a && i < 2;
    if (is_turned)  // queries and keys
      for_each_interleaved_run(rows[i], head_dim(model), turned_rows(model),
                               [&](index from, index count, index to) {
                                 add_piece(parameter, row + from, count, stored.names[i], to);
                               });
    else
      add_piece(parameter, row, rows[i], stored.names[i], 0);
    row += rows[i];
  }
}

void stored_layout::add_transposed(named_shape const& parameter, index row, index rows,
                                   std::string const& tensor) {
  index const width = width_of_shape(parameter);
  tensors_.push_back({tensor, {width, rows}});
  auto& m = parameter_pieces_[parameter.name];
  m.width = width;
  m.pieces.push_back({row, rows, tensor, 0, rows, true});
  tensor_pieces_[tensor] = {{}, rows, {{0, width, parameter.name, row, width, true}}};
}

void stored_layout::add_piece(named_shape const& parameter, index row, index rows,
                              std::string const& tensor, index tensor_row) {
  index const width = width_of_shape(parameter);
  auto const append = [&](matrices& table, std::string const& name, piece p) {
    auto& m = table[name];
    m.width = width;
    m.pieces.push_back(std::move(p));
  };
  append(parameter_pieces_, parameter.name, {row, rows, tensor, tensor_row, width});
  append(tensor_pieces_, tensor, {tensor_row, rows, parameter.name, row, width});
}

}  // namespace mpt::hf
