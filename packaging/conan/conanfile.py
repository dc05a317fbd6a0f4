"""A Conan 2 recipe of the headers: conan create packaging/conan -s compiler.cppstd=20

It installs the CMake package of this checkout, whose targets consumers get by find_package(ParallelLM)."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class ParallelLM(ConanFile):
    name = "parallellm"
    description = "Training parallelism as a header-only C++20 library"
    license = "Apache-2.0"
    topics = ("training", "deep-learning", "parallelism", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"checkpoint": [True, False]}
    default_options = {"checkpoint": False}
    no_copy_source = True

    def _checkout(self):
        return os.path.normpath(os.path.join(self.recipe_folder, "..", ".."))

    def set_version(self):
        header = load(self, os.path.join(self._checkout(), "include", "parallel", "core", "version.hpp"))
        self.version = ".".join(re.search(r"library_version\{(\d+), (\d+), (\d+)\};", header).groups())

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "docs/*", "apps/*", "src/*"):
            copy(self, pattern, src=self._checkout(), dst=self.export_sources_folder)

    def requirements(self):
        if self.options.checkpoint:
            self.requires("nlohmann_json/[>=3.10 <4]")
            self.requires("xxhash/[>=0.8 <1]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        self.info.clear()  # one package for every compiler

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("APPS", "TESTS", "BENCH"):
            toolchain.cache_variables[f"PARALLELLM_{part}"] = False
        toolchain.cache_variables["CMAKE_INSTALL_LIBDIR"] = "lib"
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")  # the installed CMake package is found instead
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "ParallelLM")]
        self.cpp_info.set_property("pkg_config_name", "parallellm")
