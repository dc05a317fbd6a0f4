// write_zip and pickle_code: write the files that torch.save writes, and malformed variants of
// them.
#pragma once

#include <zip.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/error.hpp>

namespace test {

struct zip_member {
  std::string name;
  std::string content;
  bool compressed = false;
};

/// Writes a zip file of the given members.
inline void write_zip(std::filesystem::path const& path, std::vector<zip_member> const& members) {
  using parallel::require;
  int code = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  require(archive != nullptr, path.native(), ": cannot be created");
  for (auto const& [name, content, compressed] : members) {
    zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), 0);
    auto const member_index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    require(member_index >= 0 &&
                zip_set_file_compression(archive, static_cast<zip_uint64_t>(member_index),
                                         compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) == 0,
            path.native(), ": cannot add ", name);
  }
  require(zip_close(archive) == 0, path.native(), ": cannot be written");
}

/// Builds a pickle instruction by instruction.
class pickle_code {
 public:
  pickle_code() { code_ = "\x80\x02"; }
  explicit pickle_code(std::string_view raw) : code_(raw) {}

  pickle_code& raw(std::string_view bytes) {
    code_ += bytes;
    return *this;
  }
  pickle_code& text(std::string_view value) { return raw("X").number(value.size(), 4).raw(value); }
  pickle_code& integer(std::int64_t value) {
    return raw("\x8a\x08").number(static_cast<std::uint64_t>(value), 8);
  }
  pickle_code& global(std::string_view module, std::string_view name) {
    return raw("c").raw(module).raw("\n").raw(name).raw("\n");
  }
  pickle_code& tuple(std::vector<std::int64_t> const& values) {
    raw("(");
    for (auto const value : values) integer(value);
    return raw("t");
  }
  /// A contiguous tensor that begins at element `first` of storage `key`, which has `stored`
  /// elements.
  pickle_code& tensor(std::string_view type, std::string_view key, std::int64_t stored,
                      std::vector<std::int64_t> const& extents, std::int64_t first = 0) {
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t step = 1;
    for (std::size_t i = extents.size(); i-- > 0; step *= extents[i]) strides[i] = step;
    global("torch._utils", "_rebuild_tensor_v2").raw("((").text("storage").global("torch", type);
    text(key).text("cpu").integer(stored).raw("tQ").integer(first).tuple(extents).tuple(strides);
    return raw("\x89").global("collections", "OrderedDict").raw(")RtR");
  }
  [[nodiscard]] std::string stop() { return code_ + "."; }

 private:
  pickle_code& number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) code_ += static_cast<char>(value >> (8 * i) & 0xffU);
    return *this;
  }

  std::string code_;
};

template <class T>
[[nodiscard]] std::string bytes_of(std::vector<T> const& values) {
  auto const bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

}  // namespace test
