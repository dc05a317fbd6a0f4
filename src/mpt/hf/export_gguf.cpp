#include <mpt/hf/export_gguf.hpp>

#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include <mpt/hf/generation_defaults.hpp>
#include <mpt/hf/gguf_model.hpp>
#include <mpt/hf/gguf_tokenizer.hpp>
#include <mpt/hf/merge.hpp>
#include <mpt/hf/shapes.hpp>
#include <parallel/checkpoint/claims/save_lock.hpp>

namespace mpt {
namespace {

/// Throws unless a file may be written under this name.
void require_free(std::filesystem::path const& out, convert_options const& options) {
  require(out.has_filename(), out.native(), ": expected the name of a file for --gguf");
  if (!parallel::files::exists(out)) return;
  require(!std::filesystem::is_directory(out), out.native(),
          ": is a folder; name the file that --gguf writes, such as ",
          (out / "model.gguf").native());
  require(options.existing == parallel::checkpoint::if_exists::replace, out.native(),
          ": exists already; choose another file, or replace it (--replace)");
  require(hf::is_gguf_file(out), out.native(), ": is no GGUF file; it is not replaced");
}

/// The tokenizer's fields; without a tokenizer, those that say so.
[[nodiscard]] hf::gguf_tokenizer tokenizer_fields(model_source const& source,
                                                  convert_options const& options) {
  auto const name = options.tokenizer.empty() ? source.tokenizer() : options.tokenizer;
  if (name.empty())
    return {hf::gguf_fields_without_tokenizer(),
            {"no tokenizer was found to go with it, so that the file takes and gives ids alone; "
             "name one with --tokenizer"}};
  auto const loaded = load_fitting_tokenizer(name, source.config());
  auto end_tokens = options.tokenizer.empty() ? source.end_tokens() : std::vector<std::int64_t>();
  if (end_tokens.empty()) end_tokens = read_generation_ends(name).value_or(end_tokens);
  return hf::gguf_tokenizer_of(loaded, source.config().vocab_size, end_tokens);
}

}  // namespace

std::vector<std::string> export_gguf(model_source const& source, std::filesystem::path const& out,
                                     convert_options const& options) {
  auto const& config = source.config();
  auto const target = std::filesystem::absolute(out).lexically_normal();
  require_free(target, options);
  auto const gaps = hf::gguf_gaps(config);
  require(gaps.empty(), source.path().string(),
          ": llama.cpp cannot hold this model: ", fmt::format("{}", fmt::join(gaps, "; ")));
  auto const type = precision_named(options.dtype.empty() ? source.dtype() : options.dtype);
  auto tokenizer = tokenizer_fields(source, options);
  auto fields = hf::gguf_model_fields(config, type, target.stem().string());
  fields.insert(fields.end(), tokenizer.fields.begin(), tokenizer.fields.end());
  auto const shapes = hf::shapes_of(config);
  source.require_tensors(shapes);
  auto const tensors = hf::gguf_sources(config, hf::without_adapters(shapes), type);
  std::vector<hf::gguf_tensor> declarations;
  for (auto const& tensor : tensors) declarations.push_back(tensor.tensor);

  std::optional<merged_weights> merged;
  if (config.lora) merged.emplace(source);
  auto const read = [&](std::string const& name, index begin, std::span<float> elements) {
    merged ? merged->read(name, begin, elements) : source.read(name, begin, elements);
  };
  parallel::files::make_folders(target.parent_path());
  parallel::checkpoint::save_lock const lock(
      target.parent_path() / ("." + target.filename().native() + ".lock"), target);
  hf::gguf_writer writer(target, fields, declarations);
  hf::detail::value_converter narrow(type);
  hf::detail::value_converter keep(hf::precision::fp32);
  for (auto const& tensor : tensors) {
    auto& convert = tensor.tensor.type == parallel::checkpoint::element_type::f32 ? keep : narrow;
    hf::for_each_gguf_piece(tensor, read, [&](std::span<float const> values) {
      writer.append(tensor.tensor.name, convert(tensor.tensor.name, values));
    });
  }
  writer.finish();
  auto notes = hf::gguf_notes(config);
  notes.insert(notes.end(), tokenizer.notes.begin(), tokenizer.notes.end());
  return notes;
}

}  // namespace mpt
