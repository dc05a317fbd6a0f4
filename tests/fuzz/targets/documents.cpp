// Text files of all forms: the first byte chooses plain text or JSON lines, and the compression.
#include <mpt/data/document_reader.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::documents(std::string_view input) {
  static scratch const folder;
  constexpr std::string_view names[] = {"f.txt",     "f.jsonl",     "f.txt.gz", "f.jsonl.gz",
                                        "f.txt.zst", "f.jsonl.zst", "f.gz",     "f.zst"};
  if (input.empty()) return;
  auto const name = names[static_cast<unsigned char>(input[0]) % std::size(names)];
  auto const path = folder.file(name, input.substr(1));
  refused([&] {
    mpt::data::document_reader reader(path, {.plain_text_bytes = 64, .max_line_bytes = 1 << 16});
    std::string document;
    std::uint64_t bytes = 0;
    while (bytes < (1 << 24) && reader.next(document)) {
      bytes += document.size() + 1;
      if (reader.format() == mpt::data::text_format::plain) {
        ensure(!document.empty() && document.size() <= 4 * 64, "a piece of plain text is short");
        continue;
      }
      refused([&] {
        static_cast<void>(mpt::data::text_of_row(document, reader.name(), reader.line()));
      });
    }
  });
}
