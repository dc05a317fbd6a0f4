// Writes a small MDS set of token sequences, for tests of its readers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/mds/mds_writer.hpp>

namespace test {

/// Writes one sample per row, as "ndarray:int32".
inline void write_token_set(std::filesystem::path const& folder,
                            std::vector<std::vector<std::int32_t>> const& rows,
                            std::string const& compression = "") {
  mpt::data::mds_writer writer(folder, {{{"tokens", "ndarray:int32"}}, compression, {}, 1 << 20});
  auto const encoding = mpt::data::mds_encoding::parse("ndarray:int32");
  for (auto const& row : rows) {
    std::string bytes;
    encoding.encode_array(bytes, std::span<std::int32_t const>(row),
                          std::vector<std::uint64_t>{row.size()});
    std::string_view const columns[] = {bytes};
    (void)writer.write(columns);
  }
  writer.finish();
}

}  // namespace test
