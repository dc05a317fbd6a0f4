// A model in the terms of llama.cpp's GGUF files: which forms they can hold, the fields that
// describe them, and its names of the tensors with the parameters that fill them.
//
// llama.cpp has one architecture for a family of models; model_family::gguf says which, and what is
// particular about it. MPT is one more: LayerNorm, learned positions or ALiBi, clipped projections,
// GELU. A field that an architecture does not read would be ignored in silence, so all that it does
// not read is a gap, and a model with gaps is refused.
//
// The tokenizer of a model in the fields of a GGUF file (tokenizer.ggml.*), so that llama.cpp gives
// a text the ids that ours gives it.
//
// llama.cpp has two kinds of BPE: `gpt2`, byte-level, whose split into words goes by a name that
// llama.cpp knows (tokenizer.ggml.pre) and whose merges are listed; and `llama`, SentencePiece's,
// which has a score for each token in place of merges: of neighbouring tokens those are merged
// whose result has the highest score. A tokenizer.json has merges in both cases. Scores stand for
// merges exactly if every pair of tokens that makes a token is among the merges, and the merges
// that make one token follow each other; other tokenizers are refused.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/model/family.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/gguf_file.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

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
  /// Rows of a head, of which the first and second half of `turned_rows` alternate in the file; 0:
  /// rows are as they are
  parallel::index interleaved_rows = 0;
  parallel::index turned_rows = 0;
  bool is_transposed = false;      ///< the file has each of `tensor`'s matrices the other way round
  float addend = 0;                ///< is added to each element
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

/// A tokenizer in the terms of GGUF.
struct gguf_tokenizer {
  std::vector<gguf_field> fields;
  std::vector<std::string> notes;  ///< where llama.cpp treats text differently, a sentence each
};

/// The fields for a model of `vocab_size` rows of embeddings, whose texts end with one of
/// `end_tokens`; empty: with the tokenizer's own. Throws, naming the tokenizer's file, for one that
/// llama.cpp cannot hold.
[[nodiscard]] gguf_tokenizer gguf_tokenizer_of(tokenizer const& tokenizer, std::int64_t vocab_size,
                                               std::span<std::int64_t const> end_tokens);

/// The fields of a file without tokenizer, for programs that pass ids.
[[nodiscard]] std::vector<gguf_field> gguf_fields_without_tokenizer();

}  // namespace mpt::hf
