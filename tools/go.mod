module github.com/sagestore/sagestore/tools

go 1.26.0
