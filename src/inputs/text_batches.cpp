// See text_batches.hpp.
#include <inputs/text_batches.hpp>

#include <memory>
#include <utility>
#include <vector>

#include <mpt/data/document_reader.hpp>
#include <mpt/data/records.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/train/data/data_fingerprint.hpp>
#include <mpt/train/data/training_data.hpp>

#include <inputs/parquet.hpp>

namespace {

/// A loader of an MDS set.
mpt::loader_config loader_of(apps::text_request const& args, std::int64_t length) {
  mpt::loader_config loader;
  loader.streams.push_back({.local = args.data});
  loader.max_seq_len = length;
  loader.token_encoding_type = args.token_encoding_type;
  loader.eos_token_id = args.eos_token_id;
  loader.bos_token_id = args.bos_token_id;
  return loader;
}

/// Opens an MDS set.
apps::text_batches open_set(apps::text_request const& args, mpt::model_source const& model,
                            std::int64_t length) {
  auto const& config = model.config();
  auto const loader = loader_of(args, length);
  parallel::require(!config.attn.attn_uses_sequence_id || args.eos_token_id || args.bos_token_id,
                    args.model.string(),
                    ": its attention does not look across texts, and needs to know where they end; "
                    "give --eos_token_id or --bos_token_id");
  auto set = mpt::open_streams(loader, config.vocab_size);
  double const tokens = static_cast<double>(set.size()) * static_cast<double>(length - 1);
  auto const source = std::make_shared<mpt::evaluation_batches>(std::move(set), args.rows, 0, 1, -1,
                                                                mpt::separator_of(loader));
  auto const words = args.tokenizer.empty() ? model.tokenizer() : args.tokenizer;
  return {[source] { return source->next(); }, tokens,
          mpt::data::other_tokenizer_note(args.data, words)};
}

/// Opens a file: JSON lines are documents, a plain text is one document. Documents are tokenised as
/// `prepare` does it, ended by end-of-text, concatenated and cut into sequences; the last sequence
/// is shorter.
apps::text_batches open_text_file(apps::text_request const& args, mpt::model_source const& model,
                                  std::int64_t length) {
  auto const tokenizer_name = args.tokenizer.empty() ? model.tokenizer() : args.tokenizer;
  parallel::require(!tokenizer_name.empty(), "text needs a tokenizer, and ", args.model.string(),
                    " brings none; name one with --tokenizer");
  auto const tokenizer = mpt::tokenizer::load(tokenizer_name);
  parallel::require(tokenizer.size() <= model.config().vocab_size, tokenizer_name, ": has ",
                    tokenizer.size(), " tokens, the model only ", model.config().vocab_size,
                    "; name the model's own");
  auto const affixes = mpt::read_text_affixes(tokenizer);
  auto const end = tokenizer.eos_id();
  bool const adds_end = end && (affixes.suffix.empty() || affixes.suffix.back() != *end);
  mpt::document_separator separator;
  if (end) separator = {mpt::document_separator::side::ends_document, *end};
  parallel::require(!model.config().attn.attn_uses_sequence_id || end, tokenizer_name,
                    ": has no end-of-text token, and the model's attention needs to know where "
                    "texts end; evaluate on an MDS set");
  std::vector<std::int32_t> ids;
  mpt::data::document_reader reader(args.data,
                                    {.plain_text_bytes = mpt::data::document_options::whole_file,
                                     .open_parquet = apps::parquet_texts()});
  mpt::word_cache cache(std::size_t{1} << 16);
  for (std::string row; reader.next(row);) {
    ids.insert(ids.end(), affixes.prefix.begin(), affixes.prefix.end());
    tokenizer.encode(reader.format() == mpt::data::text_format::json_lines
                         ? mpt::data::text_of_row(row, reader.name(), reader.line())
                         : row,
                     ids, cache);
    ids.insert(ids.end(), affixes.suffix.begin(), affixes.suffix.end());
    if (adds_end) ids.push_back(*end);
  }
  auto const tokens = static_cast<double>(ids.size());
  auto next = [ids = std::move(ids), length, separator, position = std::size_t{0},
               rows =
                   static_cast<std::size_t>(args.rows)]() mutable -> std::optional<mpt::sequences> {
    auto const row_length = static_cast<std::size_t>(length);
    std::size_t const full_rows = (ids.size() - position) / row_length;
    std::size_t const count =
        full_rows > 0 ? std::min(full_rows, rows) * row_length : ids.size() - position;
    if (count < 2) return std::nullopt;
    std::vector<std::int32_t> ids_of_batch(
        ids.begin() + static_cast<std::ptrdiff_t>(position),
        ids.begin() + static_cast<std::ptrdiff_t>(position + count));
    position += count;
    return mpt::sequences(std::move(ids_of_batch),
                          full_rows > 0 ? length : static_cast<std::int64_t>(count), separator);
  };
  std::string note;
  if (!end && reader.format() != mpt::data::text_format::plain)
    note = parallel::concat(tokenizer_name, ": has no end-of-text token (",
                            mpt::why_without_end(tokenizer), "): nothing separates the documents");
  return {std::move(next), tokens, std::move(note)};
}

}  // namespace

mpt::input_facts apps::text_facts(text_request const& request, mpt::model_source const& model,
                                  std::int64_t length) {
  std::string const input = "the data";
  if (!std::filesystem::is_directory(request.data))
    return {{input, request.data.string(), "its content", mpt::file_checksum(request.data)}};
  auto const loader = loader_of(request, length);
  return data_facts(input, request.data,
                    *mpt::open_dataset(loader, loader.streams.front(), model.config().vocab_size),
                    mpt::checksum_extent::sampled);
}

apps::text_batches apps::open_text(text_request const& request, mpt::model_source const& model,
                                   std::int64_t length) {
  return std::filesystem::is_directory(request.data) ? open_set(request, model, length)
                                                     : open_text_file(request, model, length);
}
