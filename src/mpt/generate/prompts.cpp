#include <mpt/generate/prompts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <mpt/data/byte_stream.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/tokenizer/chat/jinja_renderer.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

std::vector<file_prompt> read_prompts(std::filesystem::path const& file) {
  std::vector<file_prompt> out;
  parallel::require(!data::is_parquet(file), file.string(),
                    ": prompts are read from JSON lines (.jsonl) or from text, a line each");
  data::document_reader reader(file);
  if (reader.format() == data::text_format::json_lines) {
    for (std::string row; reader.next(row);) {
      auto location = parallel::concat(reader.name(), ":", reader.line());
      auto const json = parallel::checkpoint::parse_json(row, location);
      auto const found = json.is_object() ? json.find("prompt") : json.end();
      parallel::require(json.is_object() && found != json.end() && found->is_string(), location,
                        ": expected an object with \"prompt\", a string");
      out.push_back({std::move(location), found->get<std::string>()});
    }
  } else {
    auto const text = parallel::read_text_file(file, std::uintmax_t{64} << 20);
    std::uint64_t line = 0;
    for (auto begin = data::byte_order_mark(text, file.string()); begin < text.size();) {
      auto const end = std::min(text.find('\n', begin), text.size());
      auto prompt = text.substr(begin, end - begin);
      begin = end + 1;
      ++line;
      if (prompt.ends_with('\r')) prompt.pop_back();
      auto location = parallel::concat(file.string(), ":", line);
      parallel::require(utf8::is_valid(prompt), location, ": is not UTF-8 text");
      if (!prompt.empty()) out.push_back({std::move(location), std::move(prompt)});
    }
  }
  parallel::require(!out.empty(), file.string(), ": holds no prompts");
  return out;
}

std::string read_prompt(std::istream& in) {
  constexpr std::size_t max_bytes = std::size_t{64} << 20;
  std::string out;
  for (std::array<char, 1 << 16> piece{}; in.read(piece.data(), piece.size()), in.gcount() > 0;) {
    out.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    parallel::require(out.size() <= max_bytes,
                      "standard input: more than 64 MiB, too long for a prompt");
  }
  out.erase(0, data::byte_order_mark(out, "standard input"));
  parallel::require(utf8::is_valid(out), "standard input: is not UTF-8 text");
  return out;
}

std::string chat_text(std::vector<chat_message> const& messages) {
  for (auto const& message : messages)
    for (auto const mark : {chat_begin, chat_end})
      parallel::require(message.content.find(mark) == std::string::npos, "a message of the ",
                        message.role, " holds ", mark,
                        ", which marks where messages begin and end; leave it out");
  return chatml(messages, true);
}

chat_renderer read_chat_renderer(tokenizer_files const& files, std::chrono::local_seconds date) {
  if (auto const chat_template = read_chat_template(files))
    return make_jinja_renderer(*chat_template, date);
  return [](std::span<chat_message const> messages, bool answer_next) {
    parallel::require(answer_next, "a conversation is written up to where the assistant speaks");
    return chat_text({messages.begin(), messages.end()});
  };
}

}  // namespace mpt
