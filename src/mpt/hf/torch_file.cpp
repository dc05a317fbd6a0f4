#include <mpt/hf/torch_file.hpp>

#include <algorithm>
#include <span>

#include <parallel/core/file.hpp>

namespace mpt::hf {

index torch_file::entry::size() const {
  return parallel::checkpoint::checked_volume(extents, 1, "a tensor");
}

torch_file::torch_file(std::filesystem::path const& path) : zip_(require_zip_form(path)) {
  auto const* const pickle_member = find_pickle();
  parallel::require(pickle_member != nullptr, name(),
                    ": has no data.pkl, so that torch.save did not write it; save the model as "
                    "safetensors");
  auto const prefix =
      pickle_member->name.substr(0, pickle_member->name.size() - pickle_name.size());
  if (auto const* const byte_order = zip_.find(prefix + "byteorder"); byte_order != nullptr)
    parallel::require(zip_.read_all(*byte_order, 16) == "little", name(),
                      ": its numbers are big-endian; save it on another machine");
  pickle const content(zip_.read_all(*pickle_member, max_pickle_bytes), name());
  std::array<std::string_view, 2> constexpr model_path = {"state", "model"};
  auto const composer_model = content.find_path(model_path);
  read_tensors(content, composer_model.value_or(content.root()), prefix);
  if (composer_model) read_config(content);
  parallel::require(!content.find_path(adapter_config_path), name(),
                    ": holds LoRA adapters alone, not the model that they adapt; save "
                    "them in PEFT's form (save_pretrained) and give that folder as an adapter");
  parallel::require(!entries_.empty(), name(),
                    ": holds no dictionary of tensors; expected a model's state_dict or a "
                    "checkpoint of Composer");
}

std::string const& torch_file::name() const { return zip_.name(); }

std::filesystem::path const& torch_file::require_zip_form(std::filesystem::path const& path) {
  constexpr std::string_view legacy_magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20";
  std::array<char, legacy_magic.size()> begin{};
  if (parallel::files::exists(path))  // else the archive says it
    parallel::input_file(path).read_some(0, std::as_writable_bytes(std::span(begin)));
  parallel::require(std::string_view(begin.data(), begin.size()) != legacy_magic, path.native(),
                    ": is in the form that torch.save had before PyTorch 1.6, which is not read; "
                    "write it anew: torch.save(torch.load(FILE, weights_only=True), NEW_FILE)");
  return path;
}

zip_archive::member const* torch_file::find_pickle() const {
  for (auto const& member : zip_.members())
    if (member.name == pickle_name || member.name.ends_with("/data.pkl")) return &member;
  return nullptr;
}

parallel::checkpoint::element_type torch_file::type_of(std::string_view storage) {
  using enum parallel::checkpoint::element_type;
  if (storage == "FloatStorage") return f32;
  if (storage == "DoubleStorage") return f64;
  if (storage == "HalfStorage") return f16;
  if (storage == "BFloat16Storage") return bf16;
  if (storage == "LongStorage") return i64;
  if (storage == "IntStorage") return i32;
  if (storage == "ShortStorage") return i16;
  if (storage == "CharStorage") return i8;
  if (storage == "ByteStorage") return u8;
  return storage == "BoolStorage" ? boolean : unknown;
}

void torch_file::read_tensors(pickle const& content, pickle::id mapping,
                              std::string const& prefix) {
  auto const& parts = content.value_of(mapping).parts;
  if (content.value_of(mapping).type != kind::mapping) return;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    auto const& key = content.value_of(parts[i]);
    auto const& value = content.value_of(parts[i + 1]);
    if (key.type != kind::text || value.type != kind::tensor) continue;
    std::string_view tensor = key.text;
    if (tensor.starts_with("model.")) tensor.remove_prefix(6);
    parallel::require(tensor.size() < 1000, name(), ": the name of a tensor is too long");
    bool const is_new = entries_.emplace(tensor, read_entry(content, value, tensor, prefix)).second;
    parallel::require(is_new, name(), ": two tensors are named \"", printable(tensor), "\"");
  }
}

torch_file::entry torch_file::read_entry(pickle const& content, pickle::value const& value,
                                         std::string_view tensor, std::string const& prefix) const {
  namespace pc = parallel::checkpoint;
  auto const location = parallel::concat(name(), ": tensor \"", printable(tensor), "\"");
  auto const& storage = content.value_of(value.parts[0]);
  entry out;
  out.type_name = content.value_of(storage.parts[0]).text.substr(std::string_view("torch.").size());
  out.type = type_of(out.type_name);
  out.first_element = value.integer;
  out.extents = read_integers(content, value.parts[1], location);
  auto const strides = read_integers(content, value.parts[2], location);
  auto const size =
      pc::checked_volume(out.extents, std::max<std::size_t>(1, pc::size_of(out.type)), location);
  parallel::require(strides.size() == out.extents.size(), location, ": has ", strides.size(),
                    " strides for ", out.extents.size(), " extents");
  index step = 1;
  for (std::size_t i = strides.size(); size > 0 && i-- > 0; step *= out.extents[i])
    parallel::require(out.extents[i] == 1 || strides[i] == step, location,
                      ": its elements are not in order; save tensor.contiguous()");
  out.bytes = zip_.find(parallel::concat(prefix, "data/", storage.text));
  parallel::require(out.bytes != nullptr, location, ": its bytes, data/", printable(storage.text),
                    ", are missing");
  auto const width = pc::size_of(out.type);
  auto const available_elements =
      static_cast<index>(out.bytes->bytes / std::max<std::size_t>(1, width));
  parallel::require(storage.integer >= 0 && storage.integer <= available_elements, location,
                    ": its storage has ", storage.integer, " elements, but bytes for ",
                    available_elements);
  parallel::require(out.first_element >= 0 && out.first_element <= available_elements &&
                        size <= available_elements - out.first_element,
                    location, ": reaches beyond its storage of ", available_elements, " elements");
  return out;
}

std::vector<index> torch_file::read_integers(pickle const& content, pickle::id tuple,
                                             std::string const& location) {
  std::vector<index> out;
  parallel::require(content.value_of(tuple).parts.size() <= 16, location,
                    ": has more than 16 extents");
  for (auto const part : content.value_of(tuple).parts) {
    parallel::require(content.value_of(part).type == kind::integer, location,
                      ": an extent is no integer");
    out.push_back(content.value_of(part).integer);
  }
  return out;
}

void torch_file::read_config(pickle const& content) {
  std::array<std::string_view, 6> constexpr config_path = {"state", "integrations", "huggingface",
                                                           "model", "config",       "content"};
  auto const found = content.find_path(config_path);
  if (!found || content.value_of(*found).type != kind::mapping) return;
  std::size_t value_budget = 10'000;  // in values; a shared value counts each time that it occurs
  config_ = to_json(content, *found, 32, value_budget);
}

nlohmann::json torch_file::to_json(pickle const& content, pickle::id value_id, int depth,
                                   std::size_t& value_budget) const {
  parallel::require(depth > 0 && value_budget > 0, name(),
                    ": the configuration in it is too large");
  --value_budget;
  auto const& value = content.value_of(value_id);
  switch (value.type) {
    case kind::boolean: return value.integer != 0;
    case kind::integer: return value.integer;
    case kind::real: return value.real;
    case kind::text:
      parallel::require(value.text.size() <= 16384, name(),
                        ": a text of the configuration in it is too long");
      return value.text;
    case kind::list:
    case kind::tuple: {
      auto out = nlohmann::json::array();
      for (auto const part : value.parts)
        out.push_back(to_json(content, part, depth - 1, value_budget));
      return out;
    }
    case kind::mapping: {
      auto out = nlohmann::json::object();
      for (std::size_t i = 0; i + 1 < value.parts.size(); i += 2) {
        auto const& key = content.value_of(value.parts[i]);
        if (key.type == kind::text && key.text.size() <= 1000)
          out[key.text] = to_json(content, value.parts[i + 1], depth - 1, value_budget);
      }
      return out;
    }
    default: return nullptr;
  }
}

}  // namespace mpt::hf
