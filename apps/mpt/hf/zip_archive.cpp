#include <mpt/hf/zip_archive.hpp>

#include <utility>

namespace mpt::hf {

zip_archive::zip_archive(std::filesystem::path path) : path_(std::move(path)) {
  parallel::require(parallel::files::exists(path_), path_.native(), ": is not there");
  int code = 0;
  archive_.reset(zip_open(path_.c_str(), ZIP_RDONLY, &code));
  if (archive_ == nullptr) {
    zip_error_t problem;
    zip_error_init_with_code(&problem, code);
    std::string const text = zip_error_strerror(&problem);
    zip_error_fini(&problem);
    parallel::fail(path_.native(), ": is not a zip file, or is cut short (", text,
                   "); fetch it again");
  }
  auto const size = std::filesystem::file_size(path_);
  auto const count = zip_get_num_entries(archive_.get(), 0);
  parallel::require(count <= max_members, path_.native(), ": has ", count,
                    " members, more than the ", max_members, " that are read");
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t about;
    zip_stat_init(&about);
    constexpr zip_uint64_t needed =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    parallel::require(
        zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &about) == 0 &&
            (about.valid & needed) == needed,
        path_.native(), ": its list of members is damaged at number ", i);
    parallel::require(about.comp_size <= size, path_.native(), ": says that member ", i,
                      " has more bytes than the file; it is cut short or damaged");
    members_.push_back({about.name, about.size,
                        about.comp_method == ZIP_CM_STORE && about.comp_size == about.size &&
                            about.encryption_method == ZIP_EM_NONE});
    bool const first = by_name_.emplace(about.name, members_.size() - 1).second;
    parallel::require(first, path_.native(), ": two of its members have the same name");
  }
}

zip_archive::member const* zip_archive::find(std::string const& name) const {
  auto const found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}

std::string zip_archive::read_all(member const& which, std::uint64_t most) const {
  parallel::require(which.bytes <= most, path_.native(), ": its member of ", which.bytes,
                    " bytes is larger than the ", most, " that are read of such");
  std::string out(static_cast<std::size_t>(which.bytes), '\0');
  std::lock_guard const one_at_a_time(mutex_);
  open(which);
  take(std::as_writable_bytes(std::span(out)));
  char beyond = 0;  // asking for more makes it compare checksums
  bool const whole = zip_fread(opened_.get(), &beyond, 1) == 0;
  close();
  parallel::require(whole, path_.native(),
                    ": a member is damaged (its checksum or its length is wrong); fetch the file "
                    "again");
  return out;
}

void zip_archive::read(member const& which, std::uint64_t begin, std::span<std::byte> out) const {
  parallel::require(which.stored, path_.native(),
                    ": a tensor in it is compressed or encrypted; save it as torch.save does");
  parallel::require(begin <= which.bytes && out.size() <= which.bytes - begin, path_.native(),
                    ": a member of ", which.bytes, " bytes is asked for ", out.size(), " from ",
                    begin, " on");
  std::lock_guard const one_at_a_time(mutex_);
  if (opened_ == nullptr || &which != last_) open(which);
  parallel::require(zip_fseek(opened_.get(), static_cast<zip_int64_t>(begin), SEEK_SET) == 0,
                    path_.native(), ": cannot be read from byte ", begin, " of a member on");
  take(out);
}

void zip_archive::closer::operator()(zip_t* archive) const { zip_discard(archive); }

void zip_archive::closer::operator()(zip_file_t* file) const { zip_fclose(file); }

void zip_archive::open(member const& which) const {
  close();
  opened_.reset(zip_fopen_index(archive_.get(), by_name_.at(which.name), 0));
  parallel::require(opened_ != nullptr, path_.native(), ": a member cannot be opened (",
                    zip_strerror(archive_.get()), ")");
  last_ = &which;
}

void zip_archive::close() const {
  opened_.reset();
  last_ = nullptr;
}

void zip_archive::take(std::span<std::byte> out) const {
  while (!out.empty()) {
    auto const got = zip_fread(opened_.get(), out.data(), out.size());
    if (got <= 0) close();
    parallel::require(got > 0, path_.native(), ": is damaged or cut short: ", out.size(),
                      " bytes of a member cannot be read");
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace mpt::hf
