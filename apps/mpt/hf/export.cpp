#include <mpt/hf/export.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace mpt::hf {
namespace {

namespace pc = parallel::checkpoint;

[[nodiscard]] std::uint64_t bytes_of(named_shape const& tensor, std::size_t width) {
  auto const where = parallel::concat("export of \"", tensor.name, "\"");
  return static_cast<std::uint64_t>(pc::checked_volume(tensor.extents, width, where)) * width;
}

/// Cuts the list into files of at most `max_bytes`, or of one tensor that is larger by itself.
[[nodiscard]] std::vector<detail::shard> plan_shards(std::span<named_shape const> tensors,
                                                     std::size_t width, std::uint64_t max_bytes,
                                                     std::string const& stem) {
  std::vector<detail::shard> out;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const bytes = bytes_of(tensors[i], width);
    if (out.empty() || (filled != 0 && bytes > max_bytes - std::min(filled, max_bytes))) {
      out.push_back({i, i, {}});
      filled = 0;
    }
    out.back().end = i + 1;
    filled += bytes;
  }
  auto const five = [](std::size_t number) {
    auto digits = std::to_string(number);
    return digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  };
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].file = out.size() == 1 ? stem + ".safetensors"
                                  : parallel::concat(stem, "-", five(i + 1), "-of-",
                                                     five(out.size()), ".safetensors");
  return out;
}

void write_shard(std::filesystem::path const& path, std::span<named_shape const> tensors,
                 tensor_source const& source, export_options const& options) {
  constexpr parallel::index chunk = parallel::index{1} << 20;
  std::vector<pc::tensor_declaration> declarations;
  for (auto const& [name, extents] : tensors)
    declarations.push_back({options.form.prefix + name, element_type_of(options.type), extents});
  // transformers refuses files that do not say which framework's layout they have
  pc::safetensors_writer writer(path, declarations,
                                {.metadata = {{"format", "pt"}}, .on_action = options.on_action});
  std::vector<float> values;
  detail::narrower narrow(options.type);
  for (auto const& [name, extents] : tensors) {
    auto const size = pc::checked_volume(extents, sizeof(float), name);
    for (parallel::index begin = 0; begin < size; begin += chunk) {
      values.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
      source(name, begin, values);
      writer.append(options.form.prefix + name, narrow(name, values));
    }
  }
  writer.finish();
}

/// The small files: configuration, tokenizer, extras; name -> content.
[[nodiscard]] std::map<std::string, std::string> small_files(export_options const& options) {
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;
  namespace fs = std::filesystem;
  auto out = options.extra_files;
  auto config = options.config;
  folder_form const model;
  if (options.form.config_file == model.config_file)
    config["torch_dtype"] = torch_name(options.type);
  out[options.form.config_file] = config.dump(2) + "\n";
  if (options.generation_config)
    out["generation_config.json"] = options.generation_config->dump(2) + "\n";
  std::error_code ignored;
  if (fs::is_directory(options.tokenizer, ignored)) {
    for (auto const name : tokenizer_files)
      if (fs::exists(options.tokenizer / name, ignored))
        out.try_emplace(std::string(name),
                        parallel::read_text_file(options.tokenizer / name, max_bytes));
    parallel::require(out.contains("tokenizer.json") || out.contains("vocab.json"),
                      options.tokenizer.native(), ": this folder has no tokenizer.json");
  } else if (!options.tokenizer.empty()) {
    out.try_emplace("tokenizer.json", parallel::read_text_file(options.tokenizer, max_bytes));
  }
  for (auto const& [name, content] : out)
    parallel::require(parallel::is_plain_name(name), "export: \"", name,
                      "\" is not a plain file name");
  return out;
}

/// Whether `folder` holds nothing but what an export of this form writes, so that replacing it
/// loses no more.
[[nodiscard]] bool is_export_folder(std::filesystem::path const& folder, folder_form const& form) {
  std::error_code problem;
  auto const entries = std::filesystem::directory_iterator(folder, problem);
  if (problem) return false;
  bool empty = true;
  bool files_only = true;
  for (auto const& entry : entries) {
    empty = false;
    files_only = files_only && entry.is_regular_file(problem) && !entry.is_symlink(problem);
  }
  return empty || (files_only && parallel::files::exists(folder / form.config_file));
}

}  // namespace

export_folder::export_folder(std::filesystem::path const& folder,
                             std::span<named_shape const> tensors, export_options options)
    : target_(target_of(folder)), tensors_(tensors), options_(std::move(options)) {
  namespace pc = parallel::checkpoint;
  using parallel::require;
  require(target_.has_filename(), folder.native(), ": cannot be exported to");
  require(!tensors.empty(), folder.native(), ": no tensors to export");
  require(options_.config.is_object(), folder.native(), ": config must be a JSON object");
  require(options_.max_shard_bytes > 0, folder.native(), ": max_shard_bytes must be positive");
  small_ = small_files(options_);
  shards_ = shards_of(tensors, options_);
  index_ = index_of(folder);

  parallel::files::make_folders(target_.parent_path());
  auto const own_name = target_.filename().native();
  lock_.emplace(target_.parent_path() / ("." + own_name + ".lock"), folder);
  pc::remove_leftovers(target_.parent_path(),
                       [&](std::string_view name) { return name == own_name; });
  std::error_code ignored;
  empty_ = std::filesystem::is_directory(target_, ignored) &&
           std::filesystem::is_empty(target_, ignored);
  if (parallel::files::exists(target_) && !empty_) {
    require(options_.existing == pc::if_exists::replace, folder.native(),
            ": exists already; choose another folder, or replace it (convert: --replace; "
            "hf_checkpointer: overwrite: true)");
    require(is_export_folder(target_, options_.form), folder.native(),
            ": is not a folder that an export wrote; it is not replaced");
  }
  parallel::files::make_folder(temporary());
  made_ = true;
}

export_folder::~export_folder() {
  std::error_code ignored;
  if (made_) std::filesystem::remove_all(temporary(), ignored);
}

std::filesystem::path export_folder::target_of(std::filesystem::path const& folder) {
  parallel::require(!folder.empty(), "export: no folder given");
  auto target = std::filesystem::absolute(folder).lexically_normal();
  return target.has_filename() ? target : target.parent_path();  // "out/"
}

std::filesystem::path export_folder::temporary_of(std::filesystem::path const& folder) {
  return parallel::checkpoint::temporary_name(target_of(folder), 0);
}

std::vector<detail::shard> export_folder::shards_of(std::span<named_shape const> tensors,
                                                    export_options const& options) {
  return plan_shards(tensors, parallel::checkpoint::size_of(element_type_of(options.type)),
                     options.max_shard_bytes, options.form.weights);
}

void export_folder::finish() {
  namespace pc = parallel::checkpoint;
  if (shards_.size() > 1)
    parallel::write_text_file(temporary() / (options_.form.weights + ".safetensors.index.json"),
                              index_, options_.on_action);
  for (auto const& [name, content] : small_)
    parallel::write_text_file(temporary() / name, content, options_.on_action);
  pc::publish_folder(temporary(), target_, empty_ ? pc::if_exists::replace : options_.existing,
                     options_.on_action);
  made_ = false;
}

std::string export_folder::index_of(std::filesystem::path const& folder) const {
  nlohmann::ordered_json out;
  auto const width = parallel::checkpoint::size_of(element_type_of(options_.type));
  std::uint64_t total = 0;
  for (auto const& tensor : tensors_) total += bytes_of(tensor, width);
  out["metadata"]["total_size"] = total;
  for (auto const& [begin, end, file] : shards_)
    for (auto const& tensor : tensors_.subspan(begin, end - begin))
      out["weight_map"][options_.form.prefix + tensor.name] = file;
  parallel::require(out["weight_map"].size() == tensors_.size(), folder.native(),
                    ": two tensors have the same name");
  return out.dump(2) + "\n";
}

void hf_export(std::filesystem::path const& folder, std::span<named_shape const> tensors,
               tensor_source const& source, export_options const& options) {
  export_folder out(folder, tensors, options);
  for (auto const& [begin, end, file] : out.shards())
    write_shard(out.temporary() / file, tensors.subspan(begin, end - begin), source, options);
  out.finish();
}

}  // namespace mpt::hf

namespace mpt::hf::detail {

std::span<std::byte const> narrower::operator()(std::string const& name,
                                                std::span<float const> values) {
  if (type_ == precision::fp32) return std::as_bytes(values);
  narrow_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (type_ == precision::bf16) {
      narrow_[i] = parallel::bf16(values[i]).bits;
    } else {
      narrow_[i] = pc::float_to_half(values[i]);
      parallel::require(!pc::overflows_half(values[i]), "tensor \"", name, "\" has the value ",
                        values[i],
                        ", which float16 cannot hold (its largest is 65504); export it as "
                        "bfloat16 or float32");
    }
  return std::as_bytes(std::span(narrow_));
}

}  // namespace mpt::hf::detail
