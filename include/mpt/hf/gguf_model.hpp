// A model in the terms of llama.cpp's GGUF files: which forms they can hold, the fields that
// describe them, and its names of the tensors with the parameters that fill them.
//
// llama.cpp has one architecture for a family of models; model_family::gguf says which, and what is
// particular about it. MPT is one more: LayerNorm, learned positions or ALiBi, clipped projections,
// GELU. A field that an architecture does not read would be ignored in silence, so all that it does
// not read is a gap, and a model with gaps is refused.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/model/family.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/gguf_file.hpp>

namespace mpt::hf {

/// How llama.cpp holds the family of this model.
[[nodiscard]] gguf_form gguf_form_of(model_config const& model);

/// The reasons for which llama.cpp cannot compute this model; empty when it can.
[[nodiscard]] std::vector<std::string> gguf_gaps(model_config const& model);

/// The things that llama.cpp computes a little differently, one sentence each.
[[nodiscard]] std::vector<std::string> gguf_notes(model_config const& model);

/// The fields that describe a model without gaps, whose matrices are stored as `type`. `name` is
/// that of the model, for people.
[[nodiscard]] std::vector<gguf_field> gguf_model_fields(model_config const& model, precision type,
                                                        std::string const& name);

/// Rows of a parameter; of a vector, elements.
struct gguf_rows {
  std::string parameter;
  parallel::index row = 0;
  parallel::index rows = 0;
};

/// A tensor of the file, made of rows of parameters one after another.
struct gguf_source {
  gguf_tensor tensor;
  std::vector<gguf_rows> rows = {};
  /// Rows of a head whose first and second half alternate in the file; 0: rows are as they are
  parallel::index interleaved_rows = 0;
  std::vector<float> values = {};  ///< the elements, where they come from no parameter
};

/// The tensors of a model without gaps, from its parameters. Vectors and learned positions are f32
/// whatever `type` is: llama.cpp computes with them in no other type.
[[nodiscard]] std::vector<gguf_source> gguf_sources(model_config const& model,
                                                    std::span<named_shape const> parameters,
                                                    precision type);

/// Calls emit(values) with all elements of a tensor in order, some rows at a time. read(parameter,
/// begin, out) reads elements of a parameter.
void for_each_gguf_piece(gguf_source const& source, tensor_source const& read,
                         std::function<void(std::span<float const>)> const& emit);

}  // namespace mpt::hf
