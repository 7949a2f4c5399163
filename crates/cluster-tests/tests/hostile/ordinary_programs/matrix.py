# With the library of linear algebra, which has threads of its own.
import numpy

matrix = numpy.arange(250000.0).reshape(500, 500) / 250000 + numpy.eye(500)
print(numpy.allclose(numpy.linalg.inv(matrix) @ matrix, numpy.eye(500)))
print(numpy.sort(numpy.random.default_rng().permutation(100000))[4711])
