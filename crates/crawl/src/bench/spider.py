"""Crawls the synthetic web with Scrapy for some seconds; prints what it cost, its start left out."""

import json
import resource
import sys
import time

import scrapy
from scrapy.crawler import CrawlerProcess
from twisted.internet import defer
from twisted.internet.interfaces import IResolverSimple
from zope.interface import implementer

START, ADDRESS, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Web(scrapy.Spider):
    name = "web"
    start_urls = [START]
    began = None
    pages = 0

    def parse(self, response):
        if self.began is None:
            self.began = (time.monotonic(), cpu())
        Web.pages += 1
        Web.began = self.began
        if time.monotonic() - self.began[0] > SECONDS:
            raise scrapy.exceptions.CloseSpider("enough")
        title = response.css("title::text").get()
        for link in response.css("a::attr(href)").getall():
            if not link.startswith(("mailto:", "javascript:")):
                yield response.follow(link, self.parse)
        yield {"url": response.url, "title": title}


@implementer(IResolverSimple)
class OneAddress:
    """Every name stands for one address of loopback."""

    @classmethod
    def from_crawler(cls, crawler, reactor):
        reactor.installResolver(cls())
        return cls()

    def install_on_reactor(self):
        pass

    def getHostByName(self, name, timeout=None):
        return defer.succeed(ADDRESS)


process = CrawlerProcess({
    "LOG_ENABLED": False,
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 128,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "DOWNLOAD_DELAY": 0,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "DNS_RESOLVER": OneAddress,
    "FEEDS": {"scrapy.jsonl": {"format": "jsonlines"}},
    "USER_AGENT": "bench/1.0 (+http://127.0.0.1/)",
})
process.crawl(Web)
process.start()
at, used = Web.began or (time.monotonic(), cpu())
print(json.dumps({"pages": Web.pages, "seconds": time.monotonic() - at, "cpu_s": cpu() - used}))
