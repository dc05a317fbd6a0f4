// Raw text to an MDS set of token ids: tokenise in parallel, concatenate, cut, write.
//
// One thread reads documents and hands batches of raw rows to workers, which parse and tokenise
// them; the same thread takes the results in order through ONE concatenator into the writer. So the
// output is the same bytes for any number of workers. Documents follow the order of `inputs`.
//
// A run may be killed at any moment and repeated (see prepare_journal.hpp): it continues after the
// last finished shard and ends with the same bytes; input before that point is read again only
// within one file, and not tokenised. index.json appears last, so no reader takes half a set for a
// whole one. Memory: one shard, and about 4 batches a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/concatenator.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/data/mds_writer.hpp>
#include <mpt/data/ordered_workers.hpp>
#include <mpt/data/prepare_journal.hpp>

namespace mpt::data {

/// Appends the ids of a text to a vector. Each worker calls its own one.
using text_encoder = std::function<void(std::string_view, std::vector<std::int32_t>&)>;

/// How far a run is; sums include what an interrupted run did before.
struct prepare_progress {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;   ///< of text, UTF-8
  std::uint64_t tokens = 0;  ///< with bos and eos, also those not in a sample (the tail)
  std::uint64_t samples = 0;
  std::uint64_t shards = 0;      ///< finished
  std::uint64_t input_read = 0;  ///< bytes of the input files, compressed
  std::uint64_t input_total = 0;
  double seconds = 0;  ///< of this run
};

/// Which documents of the inputs are taken: all, or, to keep data for evaluation apart, one of
/// every k documents (held_out) or the others (rest).
enum class document_part { all, held_out, rest };

struct prepare_options {
  std::vector<std::filesystem::path> inputs{};
  std::filesystem::path out_root{};
  std::string split{};      ///< sub-folder of out_root; empty: out_root itself holds index.json
  std::string tokenizer{};  ///< identity of the tokenizer (a digest, a name), compared on a restart
  concatenator_options concat{};
  std::string compression{};                                         ///< "", "zstd", "zstd:LEVEL"
  std::vector<std::string> hashes{};                                 ///< see hash.hpp
  std::optional<std::uint64_t> size_limit = std::uint64_t{1} << 26;  ///< of a raw shard
  document_part part = document_part::all;
  std::uint64_t hold_out_every = 20;  ///< k, for held_out and rest
  std::uint64_t first_input = 0;      ///< number of inputs before ours, which part depends on
  std::uint64_t processes = 0;        ///< that share a set; 0: this is no part of one
  std::vector<std::filesystem::path> all_inputs{};  ///< of all of them together
  std::size_t workers = 1;
  std::uint64_t batch_bytes = std::uint64_t{1} << 18;  ///< of text a worker takes at a time
  document_options documents{};
  bool may_be_empty = false;  ///< a set without a sample is no error: for parts of a larger one
  std::function<void(prepare_progress const&)> progress{};  ///< called after every batch
};

enum class prepare_status { written, resumed, already_complete };

struct prepare_result {
  prepare_status status = prepare_status::written;
  std::filesystem::path folder;  ///< holds index.json
  prepare_progress total;
};

namespace detail {

/// What must be equal for a repeated run to be a repetition.
[[nodiscard]] nlohmann::json prepare_parameters(prepare_options const& options);

}  // namespace detail

/// Prepares a data set. `make_encoder` is called once for every worker, in the calling thread.
/// Throws `parallel::error` on bad input (naming file and line) and when the folder holds another
/// set; what was finished stays and is continued by the next call with the same parameters.
prepare_result prepare(prepare_options const& options,
                       std::function<text_encoder()> const& make_encoder);

}  // namespace mpt::data
